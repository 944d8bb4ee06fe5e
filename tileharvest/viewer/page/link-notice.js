/** The notice about an address that names something that is not there. It offers what there is. */
import { MODES } from "./compare.js";
import { dayInWords } from "./days.js";
import { element, part } from "./dom.js";
import { writeHash } from "./permalink.js";
import { NOTHING } from "./state.js";
import { text } from "./text.js";

const MOST_OFFERED = 20; // Of many maps the header's field finds one.

/** @typedef {import("./link-faults.js").Fault} Fault */

export class LinkNotice {
  constructor() {
    /** @type {Fault[]} */
    this.faults = [];
    this.look = NOTHING;
    part("link-notice-close").addEventListener("click", () => this.show([], NOTHING));
  }

  /** @param {Fault[]} faults @param {import("./state.js").Look} look what is shown instead */
  show(faults, look) {
    this.faults = faults;
    this.look = look;
    this.speak();
  }

  /** Write the words, also after a change of the language. */
  speak() {
    part("link-notice").hidden = this.faults.length === 0;
    part("link-notice-words").replaceChildren(...this.faults.map(({ key, values, offers }) => element("p", {},
      text(key, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, inWords(name, value)]))),
      ...offers.flatMap((offer) => [" ", element("a", { href: writeHash({ ...this.look, ...offer }) }, offerInWords(offer))]))));
  }
}

/** @param {string} name that is not there @param {string[]} names of the maps that are @returns {Node[]} */
export function noSuchMap(name, names) {
  const links = names.slice(0, MOST_OFFERED).map((map) =>
    element("li", {}, element("a", { href: writeHash({ ...NOTHING, map }) }, map)));
  return [
    element("h1", {}, text("linkNoMap", { map: name })),
    element("p", {}, text(names.length > MOST_OFFERED ? "linkManyMaps" : "linkMaps")),
    element("ul", { class: "offers" }, ...links),
  ];
}

/** @param {string} name @param {string | number} value */
function inWords(name, value) {
  return typeof value === "string" && name !== "text" && /^\d{4}-\d\d-\d\d$/.test(value) ? dayInWords(value) : value;
}

/** @param {Partial<import("./state.js").Look>} offer */
function offerInWords({ layer, day, other, mode }) {
  if (mode) return text(MODES[mode]);
  return layer ?? dayInWords(/** @type {string} */ (day ?? other));
}
