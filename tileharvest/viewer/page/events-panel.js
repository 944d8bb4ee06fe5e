/** The panel of what is new: the events of a period, each with pictures before and after. */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { language, text } from "./text.js";

const DAY = 24 * 60 * 60 * 1000;

/**
 * @typedef {import("./state.js").Span} Span
 * @typedef {{from: string, to: string}} Period both days included
 */

/**
 * @param {Span} span @param {string} day on the screen @param {string} lastDay @param {string | null} before
 * @returns {Period}
 */
export function periodOf(span, day, lastDay, before) {
  if (span === "day") return { from: day, to: day };
  if (span === "visit" && before !== null) {
    const from = daysLater(before, 1);
    // The server answers for a year at most.
    return { from: from < daysLater(lastDay, -365) ? daysLater(lastDay, -365) : from, to: lastDay };
  }
  return { from: daysLater(lastDay, span === "week" ? -6 : -29), to: lastDay };
}

/** @param {string} day @param {number} count @returns {string} */
function daysLater(day, count) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + count * DAY).toISOString().slice(0, 10);
}

/**
 * @param {import("./layer-view.js").LayerView} view
 * @param {object} look
 * @param {Span} look.span @param {boolean} look.inView whether only events on the screen are shown
 * @param {string} look.day on the screen @param {string | null} look.before the newest day seen before
 * @param {(change: {span?: Span, inView?: boolean}) => void} choose
 * @param {(event: api.Event) => string} addressOf returns the address that compares the days before and after
 * @returns {HTMLElement}
 */
export function eventsPanel(view, { span, inView, day, before }, choose, addressOf) {
  const { outline, layer } = view;
  const ground = inView ? view.screen.ground : null;
  const list = element("div", { role: "status" }, "…");
  api.events(outline.name, layer.name, periodOf(span, day, outline.lastDay, before), ground).then(
    (answer) => list.replaceChildren(...told(view, answer, addressOf)),
    (error) => list.replaceChildren(text("failed", { message: error.message })),
  );
  const choice = element("select", {
    id: "events-span",
    onchange: (event) => choose({ span: /** @type {any} */ (event.target).value }),
  }, ...spans(day, before).map(([key, words]) => new Option(words, key, false, key === span)));
  return element("div", { class: "events-panel" },
    element("p", { class: "range" },
      element("label", {}, text("eventsPeriod"), " ", choice),
      element("label", {}, element("input", {
        type: "checkbox", id: "events-in-view", checked: inView,
        onchange: (event) => choose({ inView: /** @type {any} */ (event.target).checked }),
      }), " ", text("eventsInView"))),
    list,
    element("p", { class: "feeds" }, element("a", {
      href: api.feedAddress(outline.name, layer.name, language(), ground), type: "application/atom+xml",
    }, text("eventsFeed"))));
}

/** @param {string} day @param {string | null} before @returns {[Span, string][]} */
function spans(day, before) {
  /** @type {[Span, string][]} */
  const every = [
    ["day", text("eventsOfDay", { day: dayInWords(day) })],
    ["week", text("eventsOfWeek")],
    ["month", text("eventsOfMonth")],
  ];
  return before === null ? every : [["visit", text("eventsSinceVisit", { day: dayInWords(before) })], ...every];
}

/**
 * @param {import("./layer-view.js").LayerView} view @param {api.Events} answer
 * @param {(event: api.Event) => string} addressOf
 */
function told(view, { events, count, first_asked: firstAsked, left = 0 }, addressOf) {
  const grown = events.filter(({ kind }) => kind === "new");
  const changed = events.filter(({ kind }) => kind !== "new");
  const parts = [];
  if (events.length === 0) parts.push(element("p", {}, text(left > 0 ? "eventsNoneLarge" : "eventsNone")));
  for (const [heading, some] of /** @type {[string, api.Event[]][]} */ ([["eventsChanged", changed], ["eventsGrown", grown]])) {
    if (some.length === 0) continue;
    parts.push(element("h3", {}, text(heading)),
      element("ol", { class: "events" }, ...some.map((event) => item(view, event, addressOf(event)))));
  }
  if (count > events.length) parts.push(element("p", {}, text("eventsMore", { n: count - events.length })));
  if (left > 0) parts.push(element("p", { class: "aside" }, text("eventsLeft", { n: left })));
  if (firstAsked.length > 0) {
    parts.push(element("p", { class: "aside" }, text("eventsFirstAsked", { day: dayInWords(firstAsked[0]) })));
  }
  return parts;
}

/** @param {import("./layer-view.js").LayerView} view @param {api.Event} event @param {string} href */
function item(view, event, href) {
  const words = sentence(view, event);
  const caption = text("eventsBeforeAfter", { before: dayInWords(event.before), after: dayInWords(event.last) });
  const src = api.beforeAddress(view.outline.name, view.layer.name, event);
  const picture = src === null ? null : element("img", {
    src, loading: "lazy", class: "before-after", alt: caption,
    onerror: () => picture?.replaceWith(element("p", { class: "aside" }, text("eventsUnseen"))),
  });
  return element("li", { "data-first": event.first },
    element("a", { href, title: text("eventsCompare") }, picture, element("strong", {}, words)),
    element("p", { class: "aside" }, caption));
}

/** @param {import("./layer-view.js").LayerView} view @param {api.Event} event */
function sentence(view, event) {
  const [west, south, east, north] = event.ground;
  const days = event.first === event.last ? dayInWords(event.first)
    : text("eventsDays", { first: dayInWords(event.first), last: dayInWords(event.last) });
  const key = { changed: "eventChanged", new: "eventNew", gone: "eventGone" }[event.kind];
  return text(key, {
    n: event.tiles, place: view.spot({ x: (west + east) / 2, y: (south + north) / 2 }).words, days,
  });
}
