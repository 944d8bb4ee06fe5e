/** The calendar: the days of a year, coloured by how much changed in view. */
import { dayInWords, dayNumber, dayOf, monthInWords, weekdays } from "./days.js";
import { element, part } from "./dom.js";
import { text } from "./text.js";

const SHADES = 4;

export class Calendar {
  /** @param {import("./time-bar.js").TimeBar} time @param {(day: string) => void} choose */
  constructor(time, choose) {
    this.time = time;
    this.choose = choose;
    this.box = part("calendar");
    this.button = part("calendar-switch");
    this.year = 0;
    this.box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    document.addEventListener("pointerdown", (event) => {
      const inside = event.composedPath();
      if (!inside.includes(this.box) && !inside.includes(this.button)) this.close();
    });
  }

  /** Open the calendar, or close it if it is open. */
  toggle() {
    if (this.box.hidden) this.open();
    else this.close();
  }

  open() {
    this.year = Number(this.time.day.slice(0, 4));
    this.box.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.#draw();
    this.#focus(this.time.day);
  }

  close() {
    this.box.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  /** Draw the calendar again if it is open, because the view or the day has changed. */
  renew() {
    if (!this.box.hidden) this.#draw();
  }

  #draw() {
    const focused = this.box.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.day : undefined;
    const months = [];
    for (let month = 0; month < 12; month += 1) {
      const days = this.#days(month);
      if (days.length > 0) months.push(this.#month(month, days));
    }
    const head = element("div", { class: "calendar-head" }, this.#top(), this.#strip());
    this.box.replaceChildren(head, element("div", { class: "months" }, ...months));
    if (focused) this.#focus(focused);
  }

  #top() {
    const turn = (/** @type {number} */ by, /** @type {string} */ sign) => {
      const year = this.year + by;
      const { days } = this.time;
      const outside = String(year) < days[0].slice(0, 4) || String(year) > days[days.length - 1].slice(0, 4);
      return element("button", {
        type: "button", class: "icon", "aria-label": String(year), disabled: outside,
        onclick: () => {
          this.year = year;
          this.#draw();
        },
      }, sign);
    };
    return element("div", { class: "calendar-top" },
      turn(-1, "‹"), element("strong", {}, String(this.year)), turn(1, "›"),
      element("button", {
        type: "button", class: "icon", "aria-label": text("close"), onclick: () => this.#leave(),
      }, "×"));
  }

  /** The year at a glance: a square per day, a column per week. Screen readers read the months below instead. */
  #strip() {
    const first = Date.UTC(this.year, 0, 1) / 86_400_000;
    const length = Date.UTC(this.year + 1, 0, 1) / 86_400_000 - first;
    const squares = Array.from({ length }, (_, index) => {
      const day = dayOf(first + index);
      const square = element("span", {
        class: `${this.#shade(day)}${day === this.time.day ? " chosen" : ""}`, "data-square": day,
        title: text("calendarDay", { day: dayInWords(day), change: this.time.changeInWords(day) }),
        onclick: () => this.time.days.includes(day) && this.choose(day),
      });
      return square;
    });
    // Monday is the first row.
    const row = (first + 3) % 7;
    squares[0].style.gridRowStart = String(row + 1);
    const months = Array.from({ length: 12 }, (_, month) => {
      const label = element("span", {}, monthInWords(this.year, month, "short"));
      const begins = Date.UTC(this.year, month, 1) / 86_400_000 - first;
      label.style.gridColumnStart = String(Math.floor((row + begins) / 7) + 1);
      return label;
    });
    return element("div", { "aria-hidden": "true" },
      element("div", { class: "strip-months" }, ...months), element("div", { class: "strip" }, ...squares));
  }

  /** @param {string} day @returns {string} the classes that colour it by what changed in view */
  #shade(day) {
    const shade = Math.ceil(this.time.weight(day) * SHADES);
    const harvested = this.time.days.includes(day) ? " harvested" : "";
    return `shade-${day === this.time.days[0] ? "first" : shade}${harvested}`;
  }

  /** @param {number} month from 0 @returns {string[]} its days that lie within the history */
  #days(month) {
    const { days } = this.time;
    const first = Math.max(dayNumber(days[0]), Date.UTC(this.year, month, 1) / 86_400_000);
    const end = Math.min(dayNumber(days[days.length - 1]) + 1, Date.UTC(this.year, month + 1, 1) / 86_400_000);
    return Array.from({ length: Math.max(0, end - first) }, (_, index) => dayOf(first + index));
  }

  /** @param {number} month @param {string[]} days */
  #month(month, days) {
    const cells = days.map((day) => this.#cell(day));
    // Monday is the first column; 1970-01-05 was one.
    cells[0].classList.add(`column-${((dayNumber(days[0]) + 3) % 7) + 1}`);
    const names = weekdays().map((name) => element("span", { class: "weekday", "aria-hidden": "true" }, name));
    return element("section", { class: "month" },
      element("h2", {}, monthInWords(this.year, month)),
      element("div", { class: "days" }, ...names, ...cells));
  }

  /** @param {string} day */
  #cell(day) {
    const chosen = day === this.time.day;
    return element("button", {
      type: "button",
      class: `day ${this.#shade(day)}`,
      "data-day": day,
      "aria-label": text("calendarDay", {
        day: dayInWords(day, "full"), change: this.time.changeInWords(day),
      }),
      "aria-current": chosen ? "date" : "false",
      tabindex: chosen ? 0 : -1,
      onclick: () => this.choose(day),
    }, String(Number(day.slice(8))));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape") {
      // One press of Escape closes one thing. The panel also listens for it, and must stay.
      event.stopPropagation();
      this.#leave();
    }
    const at = /** @type {HTMLElement} */ (event.target).dataset.day;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 }[event.key];
    if (at === undefined || by === undefined) return;
    event.preventDefault();
    const { days } = this.time;
    const day = dayOf(dayNumber(at) + by);
    if (day < days[0] || day > days[days.length - 1]) return;
    if (Number(day.slice(0, 4)) !== this.year) {
      this.year = Number(day.slice(0, 4));
      this.#draw();
    }
    this.#focus(day);
  }

  /** @param {string} day */
  #focus(day) {
    this.box.querySelector(`[data-day="${day}"]`)?.focus();
  }

  #leave() {
    this.close();
    this.button.focus();
  }
}
