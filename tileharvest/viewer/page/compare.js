/** Comparing two days: the ways to do it, and the border of the swipe. */
import { dayInWords } from "./days.js";
import { element, part } from "./dom.js";
import { text } from "./text.js";

/** @type {Record<import("./state.js").Mode, string>} the keys of their names */
export const MODES = {
  one: "modeOne", swipe: "modeSwipe", side: "modeSide", onion: "modeOnion", difference: "modeDifference",
};
const STEP = 0.02; // Of the width, for one press of an arrow key on the border.
const LEAP = 0.1;

export class CompareTools {
  /**
   * @param {object} actions
   * @param {(mode: import("./state.js").Mode) => void} actions.chooseMode
   * @param {(day: string) => void} actions.chooseOther
   * @param {() => void} actions.arrange the border has moved, or the blend has changed
   */
  constructor(actions) {
    this.actions = actions;
    this.share = 0.5;
    this.border = part("swipe");
    this.#drawModes("one");
    part("other").addEventListener("change", (/** @type {any} */ event) => {
      if (event.target.value) actions.chooseOther(event.target.value);
    });
    part("onion").addEventListener("input", () => actions.arrange());
    this.#listenToBorder();
  }

  /** Of the other day in an onion skin. */
  get opacity() {
    return Number(part("onion").value) / 100;
  }

  /**
   * What was chosen, which may not be on the screen yet.
   * @param {import("./state.js").Mode} mode @param {string | null} other
   * @param {{firstDay: string, lastDay: string, days: string[]}} outline
   */
  choose(mode, other, outline) {
    this.#drawModes(mode);
    for (const choice of part("modes").querySelectorAll("input")) {
      choice.disabled = outline.days.length < 2 && choice.value !== "one";
    }
    part("other-field").hidden = mode === "one";
    part("onion-field").hidden = mode !== "onion";
    Object.assign(part("other"), { min: outline.firstDay, max: outline.lastDay, value: other ?? "" });
  }

  /**
   * What is on the screen now.
   * @param {import("./state.js").Mode} mode @param {string} day @param {string | null} other
   */
  show(mode, day, other) {
    this.border.hidden = mode !== "swipe";
    const sides = mode === "swipe" || mode === "side";
    for (const [id, shown] of [["left-day", other], ["right-day", day]]) {
      part(String(id)).hidden = !sides;
      part(String(id)).textContent = shown ? dayInWords(shown) : "";
    }
    this.otherDay = other;
    this.#place();
    part("stage").dataset.mode = mode;
  }

  /** @param {import("./state.js").Mode} chosen */
  #drawModes(chosen) {
    const box = part("modes");
    const legend = box.querySelector("legend");
    const focused = box.contains(document.activeElement);
    box.replaceChildren(legend, ...Object.entries(MODES).map(([mode, key]) => element("label", { class: "mode" },
      element("input", {
        type: "radio", name: "mode", value: mode, checked: mode === chosen,
        onchange: () => this.actions.chooseMode(/** @type {import("./state.js").Mode} */ (mode)),
      }),
      element("span", {}, text(key)))));
    if (focused) box.querySelector("input:checked").focus();
  }

  #listenToBorder() {
    const stage = part("stage");
    this.border.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      this.border.setPointerCapture(event.pointerId);
      event.preventDefault();
      this.border.focus();
    });
    this.border.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (!this.border.hasPointerCapture(event.pointerId)) return;
      const box = stage.getBoundingClientRect();
      this.#move((event.clientX - box.left) / box.width);
    });
    this.border.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const steps = {
        ArrowLeft: -STEP, ArrowRight: STEP, PageDown: -LEAP, PageUp: LEAP, Home: -1, End: 1,
      };
      const by = steps[/** @type {keyof typeof steps} */ (event.key)];
      if (by === undefined) return;
      event.preventDefault();
      this.#move(this.share + by);
    });
  }

  /** @param {number} share of the width */
  #move(share) {
    this.share = Math.min(1, Math.max(0, share));
    this.#place();
    this.actions.arrange();
  }

  #place() {
    const percent = Math.round(this.share * 100);
    this.border.style.left = `${this.share * 100}%`;
    this.border.setAttribute("aria-valuenow", String(percent));
    const day = this.otherDay ? dayInWords(this.otherDay) : "";
    this.border.setAttribute("aria-valuetext", text("swipeValue", { percent, day }));
  }
}
