const most = 12; // classes that are shown at once
const root = document.querySelector("#try .try");
const form = root.querySelector("form");
const output = root.querySelector("output");
const bars = root.querySelector(".answer > div");
const { names } = page; // of the classes, as the page writes them
let row = [];
const refreshers = []; // called when another row is loaded

const make = (tag, options = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
};
// The largest score of the rows in the page, or the range of the targets: it sets the length of bars
// and the digits of numbers.
const range = page.targets
  ? page.targets[1] - page.targets[0] || 1
  : Math.max(...page.rows.flatMap(({ values }) => scores(values).map(Math.abs))) || 1;
const rounded = (number, size) =>
  number.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 8)).replace("-", "\u2212");
const short = (number) => rounded(number, range);

// -- What the machine says ----------------------------------------------------------------------

/** A table of names, bars and texts; a bar goes from one share of the track to another. */
function block(title, lines, note = "") {
  const table = make("table");
  for (const [name, text, from, to] of lines) {
    const bar = make("span", { className: "bar" });
    bar.style.left = `${100 * Math.min(from, to)}%`;
    bar.style.width = `${100 * Math.abs(to - from)}%`;
    const track = make("span", { className: "track" }, bar);
    const cell = make("td", { textContent: name, title: name });
    table.append(make("tr", {}, cell, make("td", {}, track), make("td", { textContent: text })));
  }
  bars.append(make("h3", { textContent: title + note }), table);
}

/** The names of the scores: pairs of classes, the second of two, or all of them. */
function scoreNames(count) {
  const pair = (first, second) => `${first}, not ${second}`;
  if (page.pairs) return names.flatMap((first, i) => names.slice(i + 1).map((second) => pair(first, second)));
  return count === 1 ? [`for ${names.at(-1)}`] : names;
}

/** The largest of many numbers, in the order of the classes. */
function leading(values) {
  const order = values.map((_, i) => i).sort((i, j) => values[j] - values[i] || i - j);
  return order.slice(0, most).sort((i, j) => i - j);
}

/** Several numbers, each between its least and its largest target. */
function showOutputs(values) {
  const lines = page.outputs.map(({ name, low, high }, c) => {
    const size = high - low || 1;
    return [name, rounded(values[c], size), 0, Math.min(Math.max((values[c] - low) / size, 0), 1)];
  });
  output.textContent = lines.map(([, text]) => text).join(", ");
  block("between the least and the largest target", lines);
}

function show() {
  bars.replaceChildren();
  try {
    if (page.outputs) {
      showOutputs(scores(row));
      return;
    }
    const answer = names.length ? classes.indexOf(predict(row)) : scores(row)[0];
    output.textContent = names.length ? names[answer] : short(answer);
    if (!names.length) {
      const [low, high] = page.targets;
      const share = Math.min(Math.max((answer - low) / range, 0), 1);
      block("between the least and the largest target", [[short(low), short(high), 0, share]]);
      return;
    }
    let shares = null;
    try {
      shares = probabilities(row);
    } catch {
      // a machine without probabilities
    }
    if (shares) {
      const kept = leading(shares);
      const lines = kept.map((c) => [names[c], `${(100 * shares[c]).toFixed(1)} %`, 0, shares[c]]);
      block("probability", lines, kept.length < shares.length ? `, ${kept.length} largest of ${shares.length}` : "");
    }
    const values = scores(row);
    const labels = scoreNames(values.length);
    const size = Math.max(range, ...values.map(Math.abs));
    const kept = leading(page.pairs ? values.map(Math.abs) : values);
    const lines = kept.map((c) => [labels[c], short(values[c]), 0.5, 0.5 + values[c] / size / 2]);
    block("score", lines, kept.length < values.length ? `, ${kept.length} largest of ${values.length}` : "");
  } catch (error) {
    output.textContent = "no prediction";
    bars.append(make("p", { textContent: error.message }));
  }
}

// -- The row ------------------------------------------------------------------------------------

function load(values) {
  row = values.slice();
  refreshers.forEach((refresh) => refresh());
  show();
}

function addNumber(fields, { label, feature, low, high, step }) {
  const number = make("input", { type: "number", step: "any" });
  const range = make("input", { type: "range", min: low, max: high, step, tabIndex: -1 });
  range.setAttribute("aria-hidden", "true"); // the number field says the same
  const change = (from, to) => () => {
    row[feature] = from.value === "" ? NaN : Number(from.value);
    to.value = from.value;
    show();
  };
  number.addEventListener("input", change(number, range));
  range.addEventListener("input", change(range, number));
  refreshers.push(() => {
    number.value = range.value = row[feature];
    number.value = row[feature]; // which the slider may have rounded
  });
  fields.append(make("label", { textContent: label }, number, range));
}

function addChoice(fields, { label, feature, options }) {
  const list = make("select", {}, ...options.map(({ text }) => make("option", { textContent: text })));
  list.addEventListener("input", () => {
    options[list.selectedIndex].values.forEach((value, i) => (row[feature + i] = value));
    show();
  });
  refreshers.push(() => {
    list.selectedIndex = options.findIndex(({ values }) => values.every((value, i) => value === row[feature + i]));
  });
  fields.append(make("label", { textContent: label }, list));
}

/** A picture to paint on, with the mouse, a finger or the arrow keys and space. */
function addPicture(side) {
  const canvas = make("canvas", { width: 8 * side, height: 8 * side, tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Picture of ${side} x ${side} pixels: arrow keys move, space paints, delete erases`);
  const context = canvas.getContext("2d");
  let [x, y, hasFocus] = [0, 0, false];
  const draw = () => {
    row.forEach((value, i) => {
      const gray = Math.round(255 * (1 - (value - page.low) / (page.high - page.low || 1)));
      context.fillStyle = `rgb(${gray}, ${gray}, ${gray})`;
      context.fillRect(8 * (i % side), 8 * Math.floor(i / side), 8, 8);
    });
    context.strokeStyle = "#d55e00";
    if (hasFocus) context.strokeRect(8 * x + 0.5, 8 * y + 0.5, 7, 7);
  };
  const set = (value) => {
    row[y * side + x] = value;
    if (side >= 16) {
      // a brush: the pixels beside it become at least half as dark, or are erased too
      const half = value === page.low ? page.low : (page.low + page.high) / 2;
      for (const [i, j] of [[x - 1, y], [x + 1, y], [x, y - 1], [x, y + 1]]) {
        if (i < 0 || j < 0 || i >= side || j >= side) continue;
        row[j * side + i] = value === page.low ? half : Math.max(row[j * side + i], half);
      }
    }
    draw();
    show();
  };
  const paint = (event) => {
    if (!event.buttons) return;
    const box = canvas.getBoundingClientRect();
    const at = (offset, size) => Math.min(side - 1, Math.max(0, Math.floor((offset / size) * side)));
    [x, y] = [at(event.clientX - box.left, box.width), at(event.clientY - box.top, box.height)];
    set(event.buttons === 1 && !event.shiftKey ? page.high : page.low);
  };
  canvas.addEventListener("pointerdown", paint);
  canvas.addEventListener("pointermove", paint);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const values = { " ": page.high, Delete: page.low, Backspace: page.low };
    if (event.key in moves) {
      [x, y] = [x, y].map((place, i) => Math.min(side - 1, Math.max(0, place + moves[event.key][i])));
      draw();
    } else if (event.key in values) set(values[event.key]);
    else return;
    event.preventDefault();
  });
  for (const name of ["focus", "blur"]) {
    canvas.addEventListener(name, () => {
      hasFocus = name === "focus";
      draw();
    });
  }
  refreshers.push(draw);
  const clear = make("button", { type: "button", textContent: "Clear" });
  clear.addEventListener("click", () => load(row.map(() => page.low)));
  const hint = "Paint with the mouse; shift or the right button erases.";
  form.append(make("p", { className: "soft", textContent: hint }), canvas, clear);
}

const rows = make("select", {}, ...page.rows.map(({ name }) => make("option", { textContent: name })));
rows.addEventListener("input", () => load(page.rows[rows.selectedIndex].values));
form.append(make("label", { textContent: "Start from a row of the report" }, rows));
form.addEventListener("submit", (event) => event.preventDefault());
if (page.side) addPicture(page.side);
const fields = make("div", { className: "fields" });
page.inputs.forEach((input) => (input.options ? addChoice : addNumber)(fields, input));
form.append(fields);
if (!page.side && page.inputs.length < page.columns) {
  const text = `These ${page.inputs.length} of ${page.columns} columns vary most; the others are those of the row above.`;
  form.append(make("p", { className: "soft", textContent: text }));
}
root.hidden = false;
load(page.rows[0].values);
