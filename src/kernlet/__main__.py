"""``python -m kernlet``: the command line."""

from kernlet.cli import main

if __name__ == "__main__":
    main(prog_name="kernlet")
