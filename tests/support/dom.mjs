// A document of a few elements, enough to run the script of a report and to use its box.
class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], style: {}, attributes: {}, listeners: {}, text: "", width: 0 });
  }
  get textContent() {
    return this.text + this.children.map((child) => child.textContent ?? child).join("");
  }
  set textContent(text) {
    this.text = String(text);
    this.children = [];
  }
  get selectedIndex() {
    return this.selected ?? 0;
  }
  set selectedIndex(index) {
    this.selected = index;
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener(name, listener) {
    (this.listeners[name] ??= []).push(listener);
  }
  emit(name, event = {}) {
    this.listeners[name].forEach((listener) => listener({ preventDefault() {}, ...event }));
  }
  getContext() {
    return { fillRect() {}, strokeRect() {} };
  }
  getBoundingClientRect() {
    return { left: 0, top: 0, width: 100, height: 100 };
  }
  /** All elements of a tag below this one. */
  all(tag) {
    const below = this.children.filter((child) => child instanceof Element);
    return below.flatMap((child) => [...(child.tag === tag ? [child] : []), ...child.all(tag)]);
  }
}

export const form = new Element("form");
export const output = new Element("output");
export const bars = new Element("div");
export const root = new Element("div");
root.querySelector = (selector) => ({ form, output, ".answer > div": bars })[selector];
globalThis.document = { createElement: (tag) => new Element(tag), querySelector: () => root };
