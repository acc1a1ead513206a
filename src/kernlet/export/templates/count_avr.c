/* Counts instructions and cycles of calls of a function, in simavr.
 *   count_avr PROGRAM MCU FUNCTION INPUTS END SIZE < rows
 * FUNCTION, INPUTS and END are addresses in hexadecimal; each row of SIZE bytes is copied to INPUTS
 * when FUNCTION is called next. The stack ends above END, and is as deep as the lowest byte that a
 * call writes. Prints instructions, cycles, bytes of stack, and what FUNCTION returned.
 */
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <stdio.h>
#include <stdlib.h>

#define LONGEST 4000000000u /* cycles of a call: minutes on the device */
#define PAINT 0xa5u

static unsigned stack_pointer(const avr_t *avr)
{
    return avr->data[R_SPL] | (unsigned)avr->data[R_SPH] << 8;
}

/* One instruction; whether the program goes on. */
static int step(avr_t *avr)
{
    const int state = avr_run(avr);
    return state != cpu_Done && state != cpu_Crashed;
}

static void no_messages(avr_t *avr, const int level, const char *format, va_list arguments)
{
    (void)avr;
    (void)level;
    (void)format;
    (void)arguments;
}

int main(int argc, char **argv)
{
    elf_firmware_t firmware = {0};
    unsigned long function, inputs, end, size;
    avr_t *avr;
    avr_global_logger_set(no_messages);
    if (argc != 7 || elf_read_firmware(argv[1], &firmware) != 0) {
        return 2;
    }
    function = strtoul(argv[3], NULL, 16);
    inputs = strtoul(argv[4], NULL, 16) & 0xffffu; /* data addresses begin at 0x800000 */
    end = strtoul(argv[5], NULL, 16) & 0xffffu;
    size = strtoul(argv[6], NULL, 10);
    avr = avr_make_mcu_by_name(argv[2]);
    if (avr == NULL || avr_init(avr) != 0) {
        return 2;
    }
    avr_load_firmware(avr, &firmware);
    avr->run_cycle_limit = 1; /* one instruction per step */
    for (;;) {
        unsigned long long instructions = 0, first;
        unsigned top, lowest, back;
        int c = getchar();
        unsigned long i;
        if (c == EOF) {
            return 0;
        }
        while (avr->pc != function) {
            if (!step(avr)) {
                fprintf(stderr, "the program stopped before the function was called\n");
                return 3;
            }
        }
        for (i = 0; i < size; ++i, c = getchar()) {
            avr->data[inputs + i] = (uint8_t)c;
        }
        ungetc(c, stdin);
        first = avr->cycle;
        top = stack_pointer(avr) + 2; /* above the return address */
        back = ((unsigned)avr->data[top - 1] << 8 | avr->data[top]) * 2;
        for (lowest = (unsigned)end; lowest <= top - 2; ++lowest) {
            avr->data[lowest] = PAINT;
        }
        while (avr->pc != back || stack_pointer(avr) != top) {
            if (!step(avr) || avr->cycle - first > LONGEST) {
                fprintf(stderr, "the program stopped: its RAM may be too small\n");
                return 3;
            }
            ++instructions;
        }
        for (lowest = (unsigned)end; avr->data[lowest] == PAINT; ++lowest) {
        }
        printf("%llu %llu %u %d\n", instructions, (unsigned long long)(avr->cycle - first),
               top - lowest + 1, (int16_t)(avr->data[24] | avr->data[25] << 8));
    }
}
