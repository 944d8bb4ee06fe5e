/** The map page. It shows what the state says, and turns what a person does into state. */
import { Answers } from "./answers.js";
import * as api from "./api.js";
import { CompareTools } from "./compare.js";
import { dayInWords, rangeInWords } from "./days.js";
import { announce, element, part, settled } from "./dom.js";
import { LayerView } from "./layer-view.js";
import { Outline } from "./outline.js";
import { Panel } from "./panel.js";
import { writeHash } from "./permalink.js";
import { PlaceBox } from "./place-box.js";
import { language, text } from "./text.js";
import { TimeBar } from "./time-bar.js";

const PATIENCE = 150; // Milliseconds after the last movement until what is in view is counted.
const AHEAD = 2; // Changes in each direction whose pictures are loaded before anybody steps there.
const SIGN = 150; // Milliseconds of loading after which the page says that it loads.

/** @typedef {import("./state.js").Look} Look */

export class TimeMachine {
  /** @param {import("./state.js").State} state */
  constructor(state) {
    this.state = state;
    /** @type {LayerView | null} the layer on the screen, or null if no map is open */
    this.view = null;
    /** Whether the state follows a person who moves the map. Then the map need not follow the state. */
    this.followed = false;
    this.time = new TimeBar({
      choose: (day) => this.#chooseDay(day),
      shown: async () => this.view?.idle(),
      picture: async (day) => this.view?.pictureInMiddle(day) ?? null,
    });
    /** @type {import("./calendar.js").Calendar | undefined} undefined until somebody opens it */
    this.calendar = undefined;
    part("calendar-switch").addEventListener("click", () => this.#switchCalendar());
    this.tools = new CompareTools({
      chooseMode: (mode) => this.#chooseMode(mode),
      chooseOther: (day) => this.view && state.set({ other: this.view.outline.within(day) }),
      arrange: () => this.view?.arrange(this.state.look.mode, this.tools),
      turn: (direction) => this.#turnLens(direction),
    });
    this.panel = new Panel(() => {
      this.answers.closed();
      this.saving.abort();
    });
    /** Ends a film that is being made. */
    this.saving = new AbortController();
    this.answers = new Answers(state, this.panel, () => this.view);
    this.place = new PlaceBox(() => this.#link());
    this.count = settled(PATIENCE, () => this.#countChanges());
    this.lookAhead = settled(PATIENCE, () => this.#lookAhead());
    /**
     * The newest day, if it is offered to a person who looks at the day that was the newest before. Otherwise empty.
     */
    this.newDay = "";
    this.signal = 0;
    /** Whether nothing in view has a picture. */
    this.isEmpty = false;
    part("heat-switch").addEventListener("click", () => this.#switchHeat());
    part("save-switch").addEventListener("click", () => this.#offerToSave());
    // A browser lets no page from a file read the pictures that it shows.
    part("save-switch").hidden = location.protocol === "file:";
    state.onChange((changed) => this.#follow(changed));
  }

  /** The map that is open. */
  get outline() {
    return this.view?.outline ?? null;
  }

  /** Show the map of the state. @param {Outline} outline */
  open(outline) {
    this.time.stop();
    this.panel.close();
    this.#openLayer(outline);
    if (this.view !== null) this.answers.opened(this.view);
    this.speak();
    this.#showPlace();
  }

  /** Show nothing until another map is opened. */
  leave() {
    this.panel.close();
    this.view?.remove();
    this.view = null;
    this.time.days = []; // Of the next map the whole time is shown.
  }

  /** Look again for new days, and at the newest one, which may still be harvested. */
  async renew() {
    const { view } = this;
    if (view === null) return;
    const outline = await Outline.of(view.outline.name);
    if (this.view !== view) return;
    const { lastDay } = view.outline;
    if (view.fits(outline)) {
      view.renew(outline);
      this.time.ended = view.layer.last_day;
      for (const day of [lastDay, outline.lastDay]) view.addresses.forget(day);
      this.time.harvested = outline.days;
    } else {
      this.open(outline);
    }
    if (outline.lastDay > lastDay) {
      this.newDay = outline.lastDay;
      // The day that a person looks at must stay.
      this.state.set({ day: this.state.look.day ?? lastDay });
    }
    this.#showDays();
    this.view.retry();
    this.count();
  }

  /** Write all words again, in another language. */
  speak() {
    const { view } = this;
    if (view === null) return;
    this.time.speak();
    this.time.harvested = view.outline.days;
    this.#showDays();
    this.#showHeat();
    this.answers.speak();
  }

  /** Name the map and the day on the screen in the page's title. */
  showTitle() {
    const { view } = this;
    if (view === null) return;
    const what = text("mapOnDay", { map: view.outline.name, day: dayInWords(this.#day(view)) });
    part("map-title").textContent = what;
    document.title = text("pageTitleOf", { what });
  }

  /** @param {LayerView} view @returns {string} the day on the screen */
  #day({ outline }) {
    return outline.within(this.state.look.day ?? outline.lastDay);
  }

  /** @param {Set<string>} changed of the state */
  #follow(changed) {
    const { view } = this;
    if (view === null) return;
    const has = (/** @type {string[]} */ ...keys) => keys.some((key) => changed.has(key));
    if (has("layer")) {
      this.panel.close();
      this.#openLayer(view.outline);
      this.#showDays();
      this.#showHeat();
    } else {
      if (has("day", "other", "mode")) this.#showDays();
      if (has("heat")) this.#showHeat();
      if (has("x", "z", "zoom") && !this.followed) view.moveTo(this.state.look);
    }
    this.answers.follow(changed);
    this.#showPlace();
  }

  /** @param {Outline} outline */
  #openLayer(outline) {
    this.view?.remove();
    const view = new LayerView(outline, outline.layer(this.state.look.layer), {
      moved: (place) => this.#moved(place),
      pointed: (point) => this.#showPlace(point),
      chosen: (tile, point) => this.#tellStory(tile, point),
      whole: () => this.state.set({ x: null, z: null, zoom: null }),
      filling: () => this.#signalFilling(),
    });
    this.view = view;
    this.newDay = "";
    this.counting?.abort();
    this.time.forget();
    this.time.ended = view.layer.last_day;
    view.day = this.#day(view);
    view.moveTo(this.state.look);
    this.place.ask(view.coordinates.example);
    this.count();
  }

  /** @param {import("./layer-view.js").Place | null} place */
  #moved(place) {
    this.counting?.abort(); // What it counts is in view no more.
    this.time.changesInView = null;
    this.count();
    this.#lookForGround();
    if (place === null) return;
    this.followed = true;
    this.state.set(place);
    this.followed = false;
  }

  #showDays() {
    const { view } = this;
    if (view === null) return;
    const { mode, other } = this.state.look;
    const day = this.#day(view);
    this.time.day = day;
    this.time.comparing = mode !== "one" && mode !== "lens";
    this.tools.choose(mode, other, view.outline);
    view.showDays(day, { mode, other }, () => {
      if (this.newDay <= day) this.newDay = "";
      this.time.dayOnScreen = day;
      this.showTitle();
      this.calendar?.renew();
      this.tools.show(mode, day, other);
      view.arrange(mode, this.tools);
      this.#notice();
      this.#lookForGround();
      this.lookAhead();
    });
  }

  /** @param {string} day */
  #chooseDay(day) {
    const { mode, other } = this.state.look;
    this.state.set({ day, other: mode === "one" ? other : this.#compared(day, mode) });
  }

  /** @param {import("./state.js").Mode} mode */
  #chooseMode(mode) {
    const { view } = this;
    if (view === null) return;
    if (mode === "one" || mode === "lens") {
      this.state.set(mode === "one" ? { mode } : { mode, other: this.#compared(this.#day(view), mode) });
      return;
    }
    // The first day has no day before it, so the next day is compared with it.
    const { days } = view.outline;
    const day = days.length > 1 && this.#day(view) < days[1] ? this.time.next(1) ?? days[1] : this.#day(view);
    this.state.set({ mode, day: day === this.#day(view) ? this.state.look.day : day,
      other: this.#compared(day, mode) });
  }

  /**
   * The day that a day is compared with.
   * @param {string} day @param {import("./state.js").Mode} mode
   * @returns {string} the day that it was compared with, if its harvest is earlier, or for a lens if it is another;
   *   else the day of the last change in view before; else the first day of all, or for a lens the next day
   */
  #compared(day, mode) {
    const { outline, time } = /** @type {{outline: Outline, time: TimeBar}} */ (this);
    const { other } = this.state.look;
    const harvest = outline.harvested(day);
    const differs = (/** @type {string} */ one) => (mode === "lens" ? one !== harvest : one < harvest);
    if (other !== null && differs(outline.harvested(other))) return other;
    const changed = [...time.changes.keys()].sort();
    const found = changed.findLast((one) => one < harvest) ?? outline.firstDay;
    if (mode !== "lens" || differs(found)) return found;
    return changed.find((one) => one > harvest) ?? outline.days[1] ?? found;
  }

  /** @param {-1 | 1} direction */
  #turnLens(direction) {
    const { other } = this.state.look;
    const next = other === null ? undefined : this.time.beside(other, direction);
    if (next !== undefined) this.state.set({ other: next });
  }

  async #switchCalendar() {
    const { Calendar } = await import("./calendar.js");
    this.calendar ??= new Calendar(this.time, (day) => {
      this.time.stop();
      this.#chooseDay(day);
    });
    this.calendar.toggle();
  }

  async #offerToSave() {
    const { savePanel } = await import("./save-panel.js");
    const { view } = this;
    if (view === null) return;
    this.panel.close();
    this.saving = new AbortController();
    this.panel.open("save", text("saveTitle"), savePanel(view, () => {
      const { mode, other } = this.state.look;
      const { changes, counting } = this.time;
      const why = text(counting === "" ? "changeNone" : counting);
      return { day: this.#day(view), other: mode === "one" ? null : other, days: [...changes.keys()].sort(), why };
    }, this.saving.signal));
  }

  #switchHeat() {
    const { days } = this.time;
    const range = { after: days[0], until: days[days.length - 1] };
    this.state.set({ heat: this.state.look.heat === null ? range : null });
  }

  async #showHeat() {
    const { view } = this;
    if (view === null) return;
    const { heat } = this.state.look;
    part("heat-switch").setAttribute("aria-pressed", String(heat !== null));
    this.#notice();
    view.showHeat(heat);
    if (heat === null) {
      this.panel.close("heat");
      return;
    }
    const loaded = await import("./heat.js").catch(() => null); // The view says if it cannot be loaded.
    if (loaded === null || this.view !== view || this.state.look.heat !== heat) return;
    this.answers.closed();
    this.panel.open("heat", text("heatTitle"), loaded.heatPanel(
      view.outline, view.layer.name, heat, (range) => this.state.set({ heat: range }),
      (tile) => {
        const { words, place } = view.locate(tile);
        // The link leads to the ground below the colours, before and after.
        const pair = { heat: null, mode: /** @type {const} */ ("swipe"), other: heat.after, day: heat.until };
        return { words, href: writeHash({ ...this.state.look, ...place, ...pair }) };
      },
    ));
  }

  /** @param {api.Tile} tile @param {{x: number, y: number}} point that was chosen in it */
  async #tellStory(tile, point) {
    const { view } = this;
    if (view === null) return;
    // The Enter key may ask for a story while a person is to draw a rectangle.
    this.answers.closed();
    view.mark(tile, point);
    const { outline, layer, description } = view;
    const { storyPanel } = await import("./story.js");
    const content = await storyPanel(outline, layer, tile, api.tileSizeOf(description), this.state.storyActions)
      .catch((error) => text("failed", { message: error.message }));
    if (this.view !== view || view.marked !== tile) return;
    this.panel.open("story", text("storyTitle", { place: view.spot(point).words }), content);
    view.reveal(point);
  }

  async #countChanges() {
    const { view } = this;
    if (view === null || !view.visible) return;
    this.counting?.abort();
    this.counting = new AbortController();
    const { signal } = this.counting;
    try {
      const { outline, layer, countable } = view;
      const changes = await api.changes(outline.name, layer.name, countable, signal);
      this.time.begun = outline.begun(layer.name, countable.zoom);
      this.time.changesInView = changes;
      this.#notice();
      this.calendar?.renew();
      this.lookAhead();
    } catch (error) {
      if (!signal.aborted) this.time.lose();
      if (error instanceof api.ApiError) announce(text("failed", { message: error.message }));
    }
  }

  /**
   * @returns {string} an address that names day and place, so that it shows the same next year. If the server has a
   *   shared address for this view, it is that one, which shows other sites a picture
   */
  #link() {
    const { view } = this;
    const here = location.href.split("#", 1)[0];
    if (view === null) return here + writeHash(this.state.look);
    const look = { ...this.state.look, ...view.place, day: this.#day(view) };
    const { mode, day, other, heat, news } = look;
    const days = mode === "one" ? [day] : mode === "swipe" && other !== null && other < day ? [other, day] : [];
    const shared = days.length > 0 && heat === null && news === null
      ? api.sharedAddress(view.outline.name, view.layer.name, days, view.place, language()) : null;
    return shared === null ? here + writeHash(look) : new URL(shared, here).href;
  }

  /** Prepare the next steps. */
  async #lookAhead() {
    const { view } = this;
    if (view === null || document.hidden) return;
    await view.idle();
    const { mode, other } = this.state.look;
    const turned = mode === "lens" && other !== null ? other : this.time.day;
    if (this.view === view) await view.lookAhead(this.time.neighbours(AHEAD, turned));
  }

  /** Say it if nothing in view has a picture. */
  async #lookForGround() {
    const { view } = this;
    if (view === null) return;
    const { mode, other } = this.state.look;
    const isEmpty = await view.isEmpty(mode === "one" || other === null ? [view.day] : [other, view.day]);
    if (this.view !== view || this.isEmpty === isEmpty) return;
    this.isEmpty = isEmpty;
    this.#notice();
  }

  /** @param {string} day on which nothing in view has a picture @returns {HTMLElement} what to do about it */
  #nothingHere(day) {
    const button = (/** @type {string} */ words, /** @type {() => void} */ onclick) =>
      element("button", { type: "button", onclick }, words);
    const later = [...this.time.changes.keys()].sort().find((one) => one > day);
    const isCounted = this.time.counting === "";
    const words = isCounted && this.time.changes.size === 0
      ? text("nothingEver") : text("nothingHere", { day: dayInWords(day) });
    return element("p", {}, words, " ", isCounted && later !== undefined
      ? button(text("nothingUntil", { day: dayInWords(later) }), () => this.#chooseDay(later))
      : button(text("wholeMap"), () => this.state.set({ x: null, z: null, zoom: null })));
  }

  /** Say what a person must know about the pictures on the screen. */
  #notice() {
    const { view } = this;
    if (view === null) return;
    const { mode, heat, other } = this.state.look;
    const { outline, day, failed } = view;
    const harvest = outline.harvested(day);
    const lines = [];
    if (failed > 0) {
      const words = text("failedPictures", { n: failed, day: dayInWords(day) });
      lines.push(element("p", { class: "failure" }, words, " ",
        element("button", { type: "button", onclick: () => view.retry() }, text("tryAgain"))));
    }
    if (this.isEmpty && failed === 0) lines.push(this.#nothingHere(day));
    if (this.newDay !== "") {
      const { newDay } = this;
      lines.push(element("p", {}, text("newDay", { day: dayInWords(newDay) }), " ",
        element("button", { type: "button", onclick: () => this.#chooseDay(newDay) }, text("newDayShow"))));
    }
    if (harvest > view.layer.last_day) {
      lines.push(element("p", {}, text("layerEnded", { day: dayInWords(view.layer.last_day) })));
    }
    if (outline.unfinished.includes(harvest)) {
      lines.push(element("p", {}, text("dayUnfinished", { day: dayInWords(harvest) })));
    }
    if (mode !== "one" && other !== null && outline.harvested(other) === harvest) {
      lines.push(element("p", {}, text("sameHarvest", { day: dayInWords(harvest) })));
    } else if (mode === "difference") {
      lines.push(differenceLegend());
    }
    if (heat) lines.push(element("p", {}, text("heatRange", { range: rangeInWords(heat) })));
    part("notice").replaceChildren(...lines);
    part("notice").hidden = lines.length === 0;
  }

  /** Say that pictures are being loaded if that takes long, and how many have failed. */
  #signalFilling() {
    const { view } = this;
    if (view === null) return;
    if (!view.isFilling) {
      clearTimeout(this.signal);
      this.signal = 0;
      part("loading").hidden = true;
      this.#notice();
      this.#lookForGround();
    } else if (this.signal === 0) {
      this.signal = window.setTimeout(() => {
        part("loading").textContent = text("loading", { day: dayInWords(this.time.day, "long") });
        part("loading").hidden = false;
      }, SIGN);
    }
  }

  /** @param {{x: number, y: number} | null} [pointer] in grid units */
  #showPlace(pointer = null) {
    const { view } = this;
    if (view === null) return;
    const point = pointer ?? view.screen.position;
    const { coordinates } = view;
    this.place.show(coordinates.inWords(point), coordinates.region(point), view.live);
  }
}

/** What the colours of a difference mean. @returns {HTMLElement} */
function differenceLegend() {
  const legend = element("p");
  import("./difference.js").then(({ THRESHOLD }) => {
    legend.textContent = text("differenceLegend", { threshold: THRESHOLD });
  }, () => {}); // The view says if it cannot be loaded.
  return legend;
}
