/** The time slider: any day, a tick where something in view changed, steps from change to change, play. */
import { dayInWords, dayNumber, dayOf } from "./days.js";
import { part } from "./dom.js";
import { text } from "./text.js";

const SPEEDS = [0.5, 1, 2, 4]; // Changes per second.
const LOWEST_TICK = 0.18; // Of the full height, so that a single changed tile is seen too.
const SVG = "http://www.w3.org/2000/svg";

export class TimeBar {
  /**
   * @param {(day: string) => void} choose
   * @param {() => Promise<void>} shown resolves when the day that was chosen last is on the screen
   */
  constructor(choose, shown) {
    this.choose = choose;
    this.shown = shown;
    this.slider = part("slider");
    /** @type {string[]} */
    this.days = [];
    /** @type {Map<string, number>} */
    this.changes = new Map();
    this.playing = 0;
    this.#listen();
  }

  /** @param {string[]} days of harvests, oldest first, at least one */
  set harvested(days) {
    this.days = days;
    this.slider.min = String(dayNumber(days[0]));
    this.slider.max = String(dayNumber(days[days.length - 1]));
    this.slider.disabled = days.length < 2;
    part("first-day").textContent = days.length < 2 ? "" : dayInWords(days[0]);
    part("last-day").textContent = days.length < 2 ? text("onlyOneDay") : dayInWords(days[days.length - 1]);
    this.#drawTicks();
  }

  /** @param {Map<string, number>} changes in view, tiles by day */
  set changesInView(changes) {
    this.changes = changes;
    this.#drawTicks();
    this.#describe();
  }

  /** @param {string} day */
  set day(day) {
    this.slider.value = String(dayNumber(day));
    this.#describe();
  }

  get day() {
    return dayOf(Number(this.slider.value));
  }

  /** @param {-1 | 1} direction @param {boolean} [around] go on at the other end @returns {boolean} whether there was one */
  step(direction, around = false) {
    const days = [...this.changes.keys()].sort();
    const next = direction > 0
      ? days.find((day) => day > this.day) ?? (around ? days[0] : undefined)
      : days.findLast((day) => day < this.day) ?? (around ? days[days.length - 1] : undefined);
    if (next === undefined) return false;
    this.choose(next);
    return true;
  }

  stop() {
    this.playing += 1;
    this.#showPlaying(false);
  }

  /** Fill in again what is words, in another language. */
  speak() {
    const speed = part("speed");
    const chosen = speed.value || "1";
    speed.replaceChildren(...SPEEDS.map((n) => new Option(text("speedValue", { n: String(n) }), String(n))));
    speed.value = chosen;
    this.#showPlaying(false);
    if (this.days.length > 0) {
      this.harvested = this.days;
      this.#describe();
    }
  }

  /** How much changed in view that day, in words. @param {string} day */
  changeInWords(day) {
    const count = this.changes.get(day) ?? 0;
    if (day === this.days[0] && count > 0) return text("changeFirst");
    if (count === 0) return this.days.includes(day) ? text("changeNone") : text("noHarvestDay");
    return count === 1 ? text("changeOne") : text("changeMany", { n: count });
  }

  /**
   * How much changed in view that day, compared with the day on which most did.
   * @param {string} day @returns {number} 0 to 1; the first harvest, which found everything new, is 1
   */
  weight(day) {
    const count = this.changes.get(day) ?? 0;
    if (count === 0 || day === this.days[0]) return count === 0 ? 0 : 1;
    const most = Math.max(...[...this.changes].filter(([other]) => other !== this.days[0]).map(([, n]) => n));
    // The root keeps days with few changes in sight beside one with very many.
    return Math.sqrt(count / most);
  }

  #listen() {
    this.slider.addEventListener("input", () => {
      this.stop();
      this.choose(this.day);
    });
    this.slider.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    document.addEventListener("keydown", (event) => {
      if (event.target === document.body) this.#key(event);
    });
    part("previous").addEventListener("click", () => this.step(-1));
    part("next").addEventListener("click", () => this.step(1));
    part("play").addEventListener("click", () => this.#toggle());
    new ResizeObserver(() => this.#drawTicks()).observe(part("ticks"));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    this.stop();
    this.step(event.key === "ArrowLeft" ? -1 : 1);
  }

  #toggle() {
    if (part("play").getAttribute("aria-pressed") === "true") this.stop();
    else this.#play();
  }

  async #play() {
    this.playing += 1;
    const turn = this.playing;
    this.#showPlaying(true);
    if (!this.step(1)) this.step(1, true);
    while (this.playing === turn) {
      const pause = new Promise((resolve) => setTimeout(resolve, 1000 / Number(part("speed").value)));
      await Promise.all([pause, this.shown()]);
      if (this.playing === turn && !this.step(1, part("loop").checked)) this.stop();
    }
  }

  /** @param {boolean} on */
  #showPlaying(on) {
    const button = part("play");
    button.setAttribute("aria-pressed", String(on));
    button.setAttribute("aria-label", text(on ? "pause" : "play"));
    button.title = text(on ? "pause" : "play");
  }

  #describe() {
    const day = this.day;
    part("day").textContent = dayInWords(day, "long");
    part("day-change").textContent = this.changeInWords(day);
    this.slider.setAttribute("aria-valuetext", `${dayInWords(day, "long")}, ${this.changeInWords(day)}`);
    const days = [...this.changes.keys()];
    part("previous").disabled = !days.some((other) => other < day);
    part("next").disabled = !days.some((other) => other > day);
    part("play").disabled = days.length < 2;
  }

  #drawTicks() {
    const ticks = part("ticks");
    const { clientWidth: width, clientHeight: height } = ticks;
    if (this.days.length === 0 || width === 0) return;
    const first = dayNumber(this.days[0]);
    const span = Math.max(1, dayNumber(this.days[this.days.length - 1]) - first);
    ticks.setAttribute("viewBox", `0 0 ${width} ${height}`);
    ticks.replaceChildren(...this.days.map((day) => {
      const weight = this.weight(day);
      const tall = weight === 0 ? 2 : height * (LOWEST_TICK + (1 - LOWEST_TICK) * weight);
      const tick = document.createElementNS(SVG, "rect");
      const thick = 3;
      tick.setAttribute("x", String(((dayNumber(day) - first) / span) * (width - thick)));
      tick.setAttribute("y", String(height - tall));
      tick.setAttribute("width", String(thick));
      tick.setAttribute("height", String(tall));
      tick.setAttribute("class", weight === 0 ? "calm" : day === this.days[0] ? "first" : "changed");
      tick.dataset.day = day;
      return tick;
    }));
  }
}
