/** The tools for comparing two days: the choice of the mode, the border of the swipe, the lens, and the blend. */
import { dayInWords } from "./days.js";
import { announceFailure, element, part } from "./dom.js";
import { text } from "./text.js";

/** @type {Record<import("./state.js").Mode, string>} the keys of their names */
export const MODES = {
  one: "modeOne", lens: "modeLens", swipe: "modeSwipe", side: "modeSide", onion: "modeOnion", difference: "modeDifference",
};
const STEP = 0.02; // Of the width, for one press of an arrow key on the border.
const LEAP = 0.1;
const LENS_SHARE = 0.3; // Of the stage's smaller edge, from the lens' middle to its rim.
const MOST_LENS = 130; // Pixels.

export class CompareTools {
  /**
   * @param {object} actions
   * @param {(mode: import("./state.js").Mode) => void} actions.chooseMode
   * @param {(day: string) => void} actions.chooseOther
   * @param {() => void} actions.arrange the border or the lens has moved, or the blend has changed
   * @param {(direction: -1 | 1) => void} actions.turn the lens to the change before or after
   */
  constructor(actions) {
    this.actions = actions;
    this.share = 0.5;
    /** The middle of the lens, as shares of the stage's width and height. */
    this.middle = { x: 0.5, y: 0.5 };
    this.border = part("swipe");
    this.#drawModes("one");
    part("other").addEventListener("change", (/** @type {any} */ event) => {
      if (event.target.value) actions.chooseOther(event.target.value);
    });
    part("onion").addEventListener("input", () => actions.arrange());
    part("lens-switch").addEventListener("click", () => actions.chooseMode(this.mode === "lens" ? "one" : "lens"));
    this.#listenToBorder();
  }

  /** The other day's share in an onion skin, 0 to 1. */
  get opacity() {
    return Number(part("onion").value) / 100;
  }

  /** The lens in pixels of the stage. */
  get lens() {
    const { clientWidth: width, clientHeight: height } = part("stage");
    const radius = Math.min(MOST_LENS, LENS_SHARE * Math.min(width, height));
    return { x: this.middle.x * width, y: this.middle.y * height, radius };
  }

  /**
   * Show the chosen mode and day, which may not be on the screen yet.
   * @param {import("./state.js").Mode} mode @param {string | null} other
   * @param {{firstDay: string, lastDay: string, days: string[]}} outline
   */
  choose(mode, other, outline) {
    this.mode = mode;
    // The lens lies on the map of one day.
    this.#drawModes(mode === "lens" ? "one" : mode);
    part("lens-switch").setAttribute("aria-pressed", String(mode === "lens"));
    for (const choice of [...part("modes").querySelectorAll("input"), part("lens-switch")]) {
      choice.disabled = outline.days.length < 2 && choice.value !== "one";
    }
    part("lens-switch").hidden = mode !== "one" && mode !== "lens";
    part("other-field").hidden = mode === "one";
    part("other-name").textContent = text(mode === "lens" ? "lensDay" : "comparedWith");
    Object.assign(part("other"), { min: outline.firstDay, max: outline.lastDay, value: other ?? "" });
  }

  /**
   * Show the tools for the mode and the days that are on the screen now.
   * @param {import("./state.js").Mode} mode @param {string} day @param {string | null} other
   */
  show(mode, day, other) {
    this.border.hidden = mode !== "swipe";
    this.#showLens(mode === "lens" ? other : null);
    part("onion-field").hidden = mode !== "onion";
    const sides = mode === "swipe" || mode === "side" || mode === "onion";
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
    const modes = Object.entries(MODES).filter(([mode]) => mode !== "lens");
    const words = modes.map(([, key]) => text(key)).join();
    if (words === this.words) {
      box.querySelector(`input[value=${chosen}]`).checked = true;
      return;
    }
    this.words = words;
    box.replaceChildren(legend, ...modes.map(([mode, key]) => element("label", { class: "mode" },
      element("input", {
        type: "radio", name: "mode", value: mode, checked: mode === chosen,
        onchange: () => this.actions.chooseMode(/** @type {import("./state.js").Mode} */ (mode)),
      }),
      element("span", {}, text(key)))));
    if (focused) box.querySelector("input:checked").focus();
  }

  /** @param {string | null} day that the lens shows; null: there is no lens */
  #showLens(day) {
    part("lens").hidden = day === null;
    if (day === null) return;
    this.#placeLens();
    this.listening ??= import("./lens.js").then(({ listenToLens }) => {
      const place = () => {
        this.#placeLens();
        this.actions.arrange();
      };
      listenToLens((x, y) => {
        this.middle = { x: Math.min(1, Math.max(0, x)), y: Math.min(1, Math.max(0, y)) };
        place();
      }, this.actions.turn);
      new ResizeObserver(place).observe(part("stage"));
    });
    // A lens that shows its day can be moved.
    this.listening.then(() => {
      part("lens-day").textContent = dayInWords(day);
    }, (error) => {
      this.listening = undefined; // The next lens tries again.
      announceFailure(error);
    });
  }

  #placeLens() {
    const { x, y, radius } = this.lens;
    const lens = part("lens");
    Object.assign(lens.style, { left: `${x}px`, top: `${y}px`, width: `${2 * radius}px`, height: `${2 * radius}px` });
    // Near the lower edge the day stands above the lens.
    lens.classList.toggle("low", y > part("stage").clientHeight - radius);
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
