/** The page of harvests: the outcomes and the cost of each, and the progress of a running one. */
import * as api from "./api.js";
import { dayInWords, dayOf } from "./days.js";
import { element, part, phrase, settled } from "./dom.js";
import { writeHash } from "./permalink.js";
import { NOTHING } from "./state.js";
import { bytesInWords, durationInWords, language, number, text } from "./text.js";

/** The outcomes in the order of the bar, changes first. The words are those of the history. */
const OUTCOMES = {
  add: "outcomeAdd", upd: "outcomeUpd", rep: "outcomeRep", gone: "outcomeGone", fail: "outcomeFail",
  nMod: "outcomeNMod", ign: "outcomeIgn", skip: "outcomeSkip", 404: "outcome404",
};
const ORDER = ["add", "upd", "rep", "gone", "fail", "nMod", "ign", "skip", "404"];
const ENDS = { finished: "endFinished", interrupted: "endInterrupted", moved: "endMoved" };
const WALKS = {
  full: "harvestFull",
  pruned: "harvestPruned",
  repaired: "harvestRepaired",
  share: "harvestShare",
  pushed: "harvestPushed",
  imported: "harvestImported",
  changes: "harvestChanges",
};
const MOST_SHOWN = 100; // Harvests of a map; a daily one's last three months.

const MOST_MAPS = 20; // Each costs a question. Who has more finds the others by their names.

const DAYS_SHOWN = 30; // In the bar of the last days.

/** @type {Map<string, boolean>} whether the table of a map's harvests is open. It stays so when the page is drawn again */
const opened = new Map();

/** The text of the search. It stays when the page is drawn again. */
let wanted = "";

/** @param {api.MapSummary[]} maps */
export async function drawHarvests(maps) {
  const words = wanted.toLowerCase();
  const found = maps.filter(({ name, note }) => `${name} ${note}`.toLowerCase().includes(words));
  const sections = await Promise.all(found.slice(0, MOST_MAPS).map(async (map) => {
    const answer = map.days === 0 ? null : await api.harvests(map.name);
    return section(map, answer, maps.length === 1);
  }));
  // Meanwhile something else may have been typed.
  if (words !== wanted.toLowerCase()) return;
  const hidden = found.length - sections.length;
  const more = hidden > 0 ? text("harvestsMore", { n: hidden }) : found.length === 0 && words ? text("harvestsNoSuch") : "";
  const page = part("harvests-page");
  const search = maps.length > MOST_MAPS ? searchField(maps) : null;
  // A person may be writing in the field that is replaced, or a link may have the focus.
  const before = page.contains(document.activeElement) ? document.activeElement : null;
  const href = before?.getAttribute("href");
  const at = before instanceof HTMLInputElement ? before.selectionStart : null;
  page.replaceChildren(...[
    element("h1", {}, text("harvestsTitle")), search && element("p", { class: "search" }, search),
    ...sections, legend(), more ? element("p", { role: "status" }, more) : null,
  ].filter((child) => child !== null));
  if (search !== null && at !== null) {
    search.focus({ preventScroll: true });
    search.setSelectionRange(at, at);
  } else if (href) {
    page.querySelector(`a[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
  }
}

/** @param {api.MapSummary[]} maps */
function searchField(maps) {
  const again = settled(150, () => drawHarvests(maps));
  const field = element("input", {
    type: "search", "aria-label": text("harvestsSearch"), placeholder: text("harvestsSearch"),
    oninput: (/** @type {any} */ event) => {
      wanted = event.target.value;
      again();
    },
  });
  field.value = wanted;
  return field;
}

function legend() {
  return element("ul", { class: "outcome-legend" }, ...ORDER.map((outcome) =>
    // Commands and API use the history's own word for the outcome.
    element("li", { title: outcome }, element("span", { class: `outcome outcome-${outcome}`, "aria-hidden": "true" }),
      ` ${text(OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (outcome)])}`)));
}

/** @param {api.MapSummary} map @param {api.Harvests | null} answer @param {boolean} isOnly whether there is no other map */
function section(map, answer, isOnly) {
  const address = writeHash({ ...NOTHING, map: map.name });
  const title = element("h2", {}, element("a", { href: address }, text("harvestsOf", { map: map.name })));
  const note = map.note ? element("p", { class: "note" }, map.note) : null;
  if (answer === null || map.first_day === null || map.last_day === null) {
    const command = element("code", {}, `tileharvest harvest ${map.name}`);
    return element("section", {}, title, note, element("p", {}, phrase(text("harvestsNone")), " ", command));
  }
  const facts = [
    text(map.days === 1 ? "harvestsOneDay" : "harvestsDays", {
      n: map.days, first: dayInWords(map.first_day), last: dayInWords(map.last_day),
    }),
    text("harvestsStored", { size: bytesInWords(answer.stored_bytes) }),
  ];
  const all = element("details", { class: "all-harvests" }, element("summary", {}, text("harvestsAll")), table(map.name, answer.harvests));
  all.open = opened.get(map.name) ?? isOnly;
  all.addEventListener("toggle", () => opened.set(map.name, all.open));
  return element("section", {}, title, note, status(answer), lastDays(answer.harvests),
    element("p", { class: "facts" }, facts.join(" · ")), progress(map.name, answer), all);
}

/** @param {api.Harvests} answer @returns {HTMLElement} how the last harvest ended, and when the next one is due */
function status({ harvests: [last], running, next_due: due }) {
  const state = running?.active ? "running" : last.reason ?? "unfinished";
  const ended = text("statusLast", { end: endOf(last), when: ago(Date.parse(last.ended ?? last.started)) });
  const words = [
    state === "running" ? text("statusRunning") : ended,
    due === null ? "" : Date.parse(due) <= Date.now() ? text("statusDue") : text("statusNext", { when: ago(Date.parse(due)) }),
  ];
  return element("p", { class: "status" }, element("span", { class: "light", "data-state": state, "aria-hidden": "true" }),
    words.filter((each) => each !== "").join(" · "));
}

/** @param {api.Harvest} harvest */
function endOf({ reason }) {
  if (reason === null) return text("endUnfinished");
  return reason in ENDS ? text(ENDS[/** @type {keyof typeof ENDS} */ (reason)]) : reason;
}

/** @param {number} moment in milliseconds @returns {string} how long ago, or how far ahead, such as `in 3 hours` */
function ago(moment) {
  const seconds = (moment - Date.now()) / 1000;
  const [unit, length] = /** @type {[Intl.RelativeTimeFormatUnit, number]} */ (
    [["day", 86_400], ["hour", 3600], ["minute", 60]].find(([, each]) => Math.abs(seconds) >= Number(each)) ?? ["second", 1]);
  return new Intl.RelativeTimeFormat(language(), { numeric: "auto" }).format(Math.round(seconds / length), unit);
}

/** @param {api.Harvest[]} harvests newest first @returns {HTMLElement} a mark for each of the last days */
function lastDays(harvests) {
  const today = Math.floor(Date.now() / 86_400_000);
  const days = Array.from({ length: DAYS_SHOWN }, (_, index) => dayOf(today - DAYS_SHOWN + 1 + index));
  const counts = { fine: 0, poor: 0 };
  const marks = days.map((day) => {
    const harvest = harvests.find((one) => one.day === day);
    const failed = harvest?.counts.fail ?? 0;
    const kind = harvest === undefined ? "none" : harvest.reason === "finished" && failed === 0 ? "fine" : "poor";
    if (kind !== "none") counts[kind] += 1;
    const words = harvest === undefined ? text("noHarvestDay")
      : `${endOf(harvest)}${failed > 0 ? `, ${text("harvestFailures", { n: failed })}` : ""}`;
    return element("span", { class: kind, title: text("calendarDay", { day: dayInWords(day), change: words }) });
  });
  const words = text("statusDays", { n: DAYS_SHOWN, fine: counts.fine, poor: counts.poor });
  return element("div", { class: "last-days", role: "img", "aria-label": words, title: words }, ...marks);
}

/** @param {string} map @param {api.Harvests} answer */
function progress(map, { running, harvests: [harvest] }) {
  if (running === null) return null;
  const { tiles_done: done, active, stopped } = running;
  // The number of tiles that a pruned walk skips is known only at its end.
  const expected = harvest.walk === "pruned" ? null : running.tiles_expected;
  if (!active) {
    const command = element("code", {}, `tileharvest harvest ${map}`);
    const words = stopped === null
      ? text("harvestStopped", { done }) : text("harvestStoppedBy", { done, reason: stopped });
    return element("p", { class: "running" }, phrase(words), " ", command);
  }
  const words = expected === null
    ? text("harvestRunningUnknown", { done }) : text("harvestRunning", { done, expected });
  const bar = element("progress", expected === null
    ? { "aria-label": text("harvestProgress") }
    : { "aria-label": text("harvestProgress"), max: Math.max(expected, done, 1), value: done });
  return element("p", { class: "running" }, bar, " ", [words, ...figures(running, harvest)].join(" · "));
}

/** @param {api.Running} running @param {api.Harvest} harvest @returns {string[]} what is known so far */
function figures({ requests_per_second: rate, seconds_left: left, failures }, harvest) {
  return [
    rate === null ? "" : text("harvestRate", { rate: number(rate, 1) }),
    text("harvestReceivedSoFar", { size: bytesInWords(harvest.received_bytes) }),
    failures === 0 ? "" : text("harvestFailures", { n: failures }),
    left === null ? "" : text("harvestLeft", { time: durationInWords(left) }),
  ].filter((words) => words !== "");
}

/** @param {string} map @param {api.Harvest[]} harvests newest first */
function table(map, harvests) {
  const heads = [
    "harvestDay", "harvestBegan", "harvestTook", "harvestEnd", "harvestDepth", "harvestOutcomes",
    "harvestFailed", "harvestRequests", "harvestReceived", "harvestSpared", "harvestStored",
  ];
  const most = Math.max(1, ...harvests.map((harvest) => total(harvest.counts)));
  return element("div", { class: "table" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((key) => element("th", { scope: "col" }, text(key))))),
    element("tbody", {}, ...harvests.slice(0, MOST_SHOWN).map((harvest) => row(map, harvest, most)))));
}

/** @param {string} map @param {api.Harvest} harvest @param {number} most tiles that a harvest had */
function row(map, harvest, most) {
  // The reason for the stop stands above the table, which would become too wide.
  const end = endOf(harvest);
  const began = new Intl.DateTimeFormat(language(), { dateStyle: "short", timeStyle: "short" });
  const failed = harvest.counts.fail ?? 0;
  const cell = (/** @type {string} */ words) => element("td", { class: "figure" }, words);
  return element("tr", {},
    element("th", { scope: "row" },
      element("a", { href: writeHash({ ...NOTHING, map, day: harvest.day }) }, dayInWords(harvest.day))),
    element("td", {}, began.format(new Date(harvest.started))),
    cell(took(harvest)),
    element("td", {}, end),
    cell([...new Set(Object.values(harvest.depth))].sort().join(", ")),
    element("td", {}, outcomeBar(harvest.counts, most)),
    element("td", { class: failed > 0 ? "figure failures" : "figure" }, number(failed)),
    requests(harvest),
    cell(bytesInWords(harvest.received_bytes)),
    spared(harvest),
    cell(bytesInWords(harvest.stored_bytes)));
}

/** The end, and the walk of the harvest. Older releases did not record the walk. @param {api.Harvest} harvest */
function requests({ requests: made, walk }) {
  const title = walk === null ? {} : { title: text(WALKS[walk]) };
  return element("td", { class: "figure", ...title }, number(made));
}

/** The time worked; of older releases' harvests that from beginning to end. @param {api.Harvest} harvest */
function took({ seconds_worked: worked, started, ended }) {
  if (worked > 0) return durationInWords(worked);
  return ended === null ? "" : durationInWords((Date.parse(ended) - Date.parse(started)) / 1000);
}

/**
 * The bytes that were not fetched thanks to ETags. Older releases did not record them.
 * @param {api.Harvest} harvest
 */
function spared({ seconds_worked: worked, spared_bytes: bytes, received_bytes: received }) {
  if (worked === 0) return element("td", { class: "figure" });
  const whole = bytes + received;
  const size = bytesInWords(bytes);
  const words = bytes === 0 ? size : text("harvestSparedShare", { size, percent: Math.round((bytes / whole) * 100) });
  const hint = text("harvestWithoutEtags", { size: bytesInWords(whole) });
  return element("td", { class: "figure", title: hint }, words);
}

/** @param {Record<string, number>} counts @param {number} most */
function outcomeBar(counts, most) {
  const there = ORDER.filter((outcome) => (counts[outcome] ?? 0) > 0);
  const words = there
    .map((outcome) => text("outcomeCount", {
      count: counts[outcome], outcome: text(OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (outcome)]),
    }))
    .join(", ");
  const parts = there.map((outcome) => {
    const piece = element("span", { class: `outcome-${outcome}` });
    piece.style.flexGrow = String(counts[outcome]);
    return piece;
  });
  const bar = element("div", { class: "outcome-bar", role: "img", "aria-label": words, title: words }, ...parts);
  bar.style.width = `${Math.max(4, (total(counts) / most) * 100)}%`;
  return bar;
}

/** @param {Record<string, number>} counts */
function total(counts) {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
