/** The time slider: any day, a tick where something in view changed, steps from change to change, play. */
import { dayInWords, dayNumber, dayOf, monthInWords } from "./days.js";
import { element, part } from "./dom.js";
import { text } from "./text.js";
import { including, labelsOf, moved, nearer } from "./time-axis.js";

const SPEEDS = [0.5, 1, 2, 4]; // Changes per second.
const LOWEST_TICK = 0.18; // Of the full height, so that a single changed tile is seen too.
const SVG = "http://www.w3.org/2000/svg";
/** The elements in which arrow keys and the space bar have their own meaning. */
const FIELDS = "input:not([type=checkbox]), select, textarea, [role=slider], #calendar";
const PRESSED_BY_SPACE = "button, a, summary, input[type=checkbox]";
const THICK = 3; // Pixels of a tick.
const NEAR = 8; // Pixels beside a tick that are still its own.
const NOTCH = 120; // What a wheel's notch counts.
const APART = 22; // Pixels between the middle of a label and the first or last day.

export class TimeBar {
  /**
   * @param {object} actions
   * @param {(day: string) => void} actions.choose
   * @param {() => Promise<void>} actions.shown resolves when the day that was chosen last is on the screen
   * @param {(day: string) => Promise<string | null>} actions.picture the address of what the middle of the screen
   *   showed on a day; null: nothing
   */
  constructor({ choose, shown, picture }) {
    this.choose = choose;
    this.shown = shown;
    this.picture = picture;
    this.slider = part("slider");
    /** @type {string[]} */
    this.days = [];
    /** @type {Map<string, number>} */
    this.changes = new Map();
    /** Whether the changes in view are being counted, are counted, or could not be counted. */
    this.counting = "changeCounting";
    /** @type {string | undefined} the first day on which the zoom in view has pictures */
    this.begun = undefined;
    /** The last day on which the site had the layer on the screen. */
    this.ended = "";
    /** Whether two days are shown. Then the history's first day can only be the earlier one. */
    this.comparing = false;
    this.playing = 0;
    /** The day that was chosen. The slider cannot show it if it lies outside of the span. */
    this.chosenDay = dayOf(0);
    /** The days along the slider. They are a part of the history if somebody has zoomed in time. */
    this.span = { from: 0, to: 0 };
    /** The day whose picture the pointer has asked for. */
    this.hinted = "";
    this.#listen();
  }

  /** @param {string[]} days of harvests, oldest first, at least one */
  set harvested(days) {
    // Another map is shown with all of its days. If all days were shown before, new days are shown, too.
    const isWhole = days[0] !== this.days[0] || JSON.stringify(this.span) === JSON.stringify(this.whole);
    this.days = days;
    this.slider.disabled = days.length < 2;
    this.#show(isWhole ? this.whole : this.span);
  }

  /** All days of the history. There is at least one. */
  get whole() {
    return { from: dayNumber(this.days[0]), to: dayNumber(this.days[this.days.length - 1]) };
  }

  /** @param {{from: number, to: number}} span of days along the slider */
  #show(span) {
    this.span = span;
    this.slider.min = String(span.from);
    this.slider.max = String(span.to);
    // For a day outside of the span the slider stands at the nearest end. The words are still those of the day.
    this.slider.value = String(dayNumber(this.chosenDay));
    const isOne = this.days.length < 2;
    part("first-day").textContent = isOne ? "" : dayInWords(dayOf(span.from));
    part("last-day").textContent = isOne ? text("onlyOneDay") : dayInWords(dayOf(span.to));
    part("time-zoom").hidden = isOne;
    const whole = this.whole;
    part("time-out").disabled = span.from <= whole.from && span.to >= whole.to;
    part("time-in").disabled = JSON.stringify(nearer(span, whole, span.from, 1)) === JSON.stringify(span);
    this.#drawTicks();
  }

  /** @param {Map<string, number> | null} changes in view, tiles by day; null: they are being counted */
  set changesInView(changes) {
    this.counting = changes === null ? "changeCounting" : "";
    this.changes = changes ?? this.changes;
    part("ticks").classList.toggle("stale", changes === null);
    this.#drawTicks();
    this.#describe();
  }

  /** Forget the changes, because another layer is opened. */
  forget() {
    this.changes = new Map();
    this.counting = "changeCounting";
  }

  /** Show that the changes in view could not be counted. */
  lose() {
    this.counting = "changeUnknown";
    this.#describe();
  }

  /** @param {string} day the chosen day, which may not be on the screen yet */
  set day(day) {
    const number = dayNumber(day);
    const isOther = day !== this.chosenDay;
    this.chosenDay = day;
    const span = isOther && this.days.length > 0 ? including(this.span, number, this.whole) : this.span;
    // Drawing hundreds of ticks again would delay the pictures.
    if (span !== this.span) this.#show(span);
    this.slider.value = String(number);
    this.#describe();
  }

  /** @param {string} day that is on the screen now */
  set dayOnScreen(day) {
    this.shownDay = day;
    this.#describe();
  }

  get day() {
    return this.chosenDay;
  }

  /**
   * The day of the next change in view.
   * @param {-1 | 1} direction @param {boolean} [around] go on at the other end
   * @returns {string | undefined} undefined: there is none
   */
  next(direction, around = false) {
    const days = this.#steps;
    return direction > 0
      ? days.find((day) => day > this.day) ?? (around ? days[0] : undefined)
      : days.findLast((day) => day < this.day) ?? (around ? days[days.length - 1] : undefined);
  }

  /** @param {-1 | 1} direction @param {boolean} [around] go on at the other end @returns {boolean} whether there was one */
  step(direction, around = false) {
    const next = this.next(direction, around);
    if (next === undefined) return false;
    this.choose(next);
    return true;
  }

  get isPlaying() {
    return part("play").getAttribute("aria-pressed") === "true";
  }

  /**
   * @param {number} count @param {string} of a day
   * @returns {string[]} the days of so many changes in view before and after it, nearest first
   */
  neighbours(count, of) {
    const days = this.#steps;
    const before = days.filter((day) => day < of).reverse();
    const after = days.filter((day) => day > of);
    return Array.from({ length: count }, (_, place) => [after[place], before[place]]).flat().filter(Boolean);
  }

  /**
   * The day of the next change in view whose pictures differ from those of the chosen day.
   * @param {string} from another day @param {-1 | 1} direction
   * @returns {string | undefined} undefined: there is none
   */
  beside(from, direction) {
    const days = this.#steps;
    const known = (/** @type {string} */ on) => days.findLast((day) => day <= on) ?? on;
    const others = days.filter((day) => day !== known(this.day));
    const [own, seen] = [known(from), direction > 0 ? others : others.reverse()];
    return seen.find((day) => (direction > 0 ? day > own : day < own));
  }

  /** The days of changes in view to which one can step. @returns {string[]} oldest first */
  get #steps() {
    return [...this.changes.keys()].filter((day) => !this.comparing || day > this.days[0]).sort();
  }

  stop() {
    this.playing += 1;
    this.#showPlaying(false);
  }

  /** Write all words again, in another language. */
  speak() {
    const speed = part("speed");
    const chosen = speed.value || "1";
    speed.replaceChildren(...SPEEDS.map((n) => new Option(text("speedValue", { n: String(n) }), String(n))));
    speed.value = chosen;
    this.#showPlaying(this.isPlaying);
    if (this.days.length > 0) {
      this.harvested = this.days;
      this.#describe();
    }
  }

  /** How much changed in view that day, in words. @param {string} day */
  changeInWords(day) {
    if (this.counting !== "") return text(this.counting);
    const count = this.changes.get(day) ?? 0;
    if (day === this.days[0] && count > 0) return text("changeFirst");
    if (count === 0 && this.begun !== undefined && day < this.begun) {
      return text("changeLater", { day: dayInWords(this.begun) });
    }
    if (count === 0 && day > this.ended) return text("changeEnded", { day: dayInWords(this.ended) });
    if (count === 0) return this.days.includes(day) ? text("changeNone") : text("noHarvestDay");
    return text("changeMany", { n: count });
  }

  /**
   * How much changed in view that day, compared with the day with most changes.
   * @param {string} day @returns {number} 0 to 1; the first harvest, to which everything was new, is 1
   */
  weight(day) {
    const count = this.changes.get(day) ?? 0;
    if (count === 0 || day === this.days[0]) return count === 0 ? 0 : 1;
    const most = Math.max(...[...this.changes].filter(([other]) => other !== this.days[0]).map(([, n]) => n));
    // The root makes days with few changes visible beside a day with very many.
    return Math.sqrt(count / most);
  }

  #listen() {
    this.slider.addEventListener("input", () => {
      this.stop();
      this.choose(dayOf(Number(this.slider.value)));
    });
    // The map, which would move, must not get this key.
    document.addEventListener("keydown", (event) => this.#key(event), { capture: true });
    part("previous").addEventListener("click", () => this.step(-1));
    part("next").addEventListener("click", () => this.step(1));
    part("play").addEventListener("click", () => this.#toggle());
    part("time-in").addEventListener("click", () => this.#turn(1, dayNumber(this.day)));
    part("time-out").addEventListener("click", () => this.#turn(-1, dayNumber(this.day)));
    this.#listenToAxis();
    new ResizeObserver(() => this.#drawTicks()).observe(part("ticks"));
  }

  #listenToAxis() {
    const ticks = part("ticks");
    part("axis").addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      const across = event.shiftKey ? event.deltaY : event.deltaX;
      const length = this.span.to - this.span.from;
      if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) {
        this.#show(moved(this.span, Math.round((across / NOTCH) * (length / 8)), this.whole));
      } else {
        this.#turn(-event.deltaY / NOTCH, this.#dayAt(event.clientX));
      }
    }, { passive: false });
    ticks.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const day = this.#tickAt(event.clientX);
      if (day === null) return;
      this.stop();
      this.choose(day);
    });
    ticks.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      // A finger hides the tick below it.
      if (event.pointerType !== "touch") this.#hint(this.#tickAt(event.clientX));
    });
    ticks.addEventListener("pointerleave", () => this.#hint(null));
  }

  /** @param {number} turns @param {number} at the day that keeps its place */
  #turn(turns, at) {
    if (this.days.length > 1) this.#show(nearer(this.span, this.whole, at, turns));
  }

  /** @param {number} day @param {number} width of the ticks @returns {number} pixels from their left edge */
  #leftOf(day, width) {
    return ((day - this.span.from) / Math.max(1, this.span.to - this.span.from)) * (width - THICK);
  }

  /** @param {number} clientX @returns {number} the day there, maybe outside of the span */
  #dayAt(clientX) {
    const { left, width } = part("ticks").getBoundingClientRect();
    return this.span.from + Math.round(((clientX - left) / Math.max(1, width - THICK)) * (this.span.to - this.span.from));
  }

  /** @param {number} clientX @returns {string | null} the day of the tick that is nearest to there; null: none is near */
  #tickAt(clientX) {
    const { left, width } = part("ticks").getBoundingClientRect();
    const away = (/** @type {string} */ day) =>
      Math.abs(this.#leftOf(dayNumber(day), width) + THICK / 2 - (clientX - left));
    const [nearest] = this.#daysInSpan().map((day) => ({ day, pixels: away(day) })).sort((one, other) => one.pixels - other.pixels);
    return nearest !== undefined && nearest.pixels <= NEAR ? nearest.day : null;
  }

  #daysInSpan() {
    return this.days.filter((day) => dayNumber(day) >= this.span.from && dayNumber(day) <= this.span.to);
  }

  /** Show a picture and words for the day of a tick. @param {string | null} day null: hide them */
  async #hint(day) {
    if (this.hinted === (day ?? "")) return;
    this.hinted = day ?? "";
    const box = part("tick-hint");
    box.hidden = day === null;
    if (day === null) return;
    const width = part("ticks").clientWidth;
    box.style.left = `${this.#leftOf(dayNumber(day), width)}px`;
    const words = [element("strong", {}, dayInWords(day)), element("span", {}, this.changeInWords(day))];
    box.replaceChildren(...words);
    const address = await this.picture(day).catch(() => null);
    if (this.hinted !== day || address === null) return;
    box.replaceChildren(element("img", { src: address, alt: "", width: 96, height: 96 }), ...words);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || part("map-page").hidden) return;
    const target = /** @type {Element} */ (event.target);
    if (target !== this.slider && target.closest(FIELDS) !== null) return;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.stop();
      this.step(event.key === "ArrowLeft" ? -1 : 1);
    } else if (event.key === " " && target.closest(PRESSED_BY_SPACE) === null) {
      this.#toggle();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #toggle() {
    if (this.isPlaying) this.stop();
    else if (!part("play").disabled) this.#play();
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
    const shown = this.shownDay ?? day;
    part("day").textContent = dayInWords(shown, "long");
    part("day-change").textContent = this.changeInWords(shown);
    this.slider.setAttribute("aria-valuetext", `${dayInWords(day, "long")}, ${this.changeInWords(day)}`);
    part("previous").disabled = this.next(-1) === undefined;
    part("next").disabled = this.next(1) === undefined;
    part("play").disabled = this.#steps.length < 2;
  }

  #drawTicks() {
    const ticks = part("ticks");
    const { clientWidth: width, clientHeight: height } = ticks;
    if (this.days.length === 0 || width === 0) return;
    ticks.setAttribute("viewBox", `0 0 ${width} ${height}`);
    ticks.replaceChildren(...this.#daysInSpan().map((day) => {
      const weight = this.weight(day);
      const tall = weight === 0 ? 2 : height * (LOWEST_TICK + (1 - LOWEST_TICK) * weight);
      const tick = document.createElementNS(SVG, "rect");
      tick.setAttribute("x", String(this.#leftOf(dayNumber(day), width)));
      tick.setAttribute("y", String(height - tall));
      tick.setAttribute("width", String(THICK));
      tick.setAttribute("height", String(tall));
      tick.setAttribute("class", weight === 0 ? "calm" : day === this.days[0] ? "first" : "changed");
      tick.dataset.day = day;
      return tick;
    }));
    this.#writeLabels(width);
  }

  /** @param {number} width of the ticks */
  #writeLabels(width) {
    const free = ["first-day", "last-day"].map((id) => part(id).offsetWidth + APART);
    let month = "";
    const labels = this.days.length < 2 ? [] : labelsOf(this.span, width).map(({ day, unit }) => {
      const left = this.#leftOf(day, width);
      if (left < free[0] || left > width - free[1]) return null;
      const label = element("span", { class: unit }, labelInWords(dayOf(day), unit, month));
      month = dayOf(day).slice(0, 7);
      label.style.left = `${left}px`;
      return label;
    });
    part("axis-labels").replaceChildren(...labels.filter((label) => label !== null));
  }
}

/** @param {string} day @param {import("./time-axis.js").Unit} unit @param {string} before the month of the label before */
function labelInWords(day, unit, before) {
  const [year, month, date] = day.split("-");
  if (unit === "year") return year;
  if (unit === "month") return monthInWords(Number(year), Number(month) - 1, "short");
  return day.startsWith(before) && before !== "" ? String(Number(date)) : dayInWords(day, "short");
}
