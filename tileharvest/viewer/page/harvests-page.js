/** The page of harvests: the outcomes and the cost of each, and the progress of a running one. */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
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
  pushed: "harvestPushed",
  imported: "harvestImported",
  changes: "harvestChanges",
};
const MOST_SHOWN = 100; // Harvests of a map; a daily one's last three months.

const MOST_MAPS = 20; // Each costs a question. Who has more finds the others by their names.

/** The text of the search. It stays when the page is drawn again. */
let wanted = "";

/** @param {api.MapSummary[]} maps */
export async function drawHarvests(maps) {
  const words = wanted.toLowerCase();
  const found = maps.filter(({ name, note }) => `${name} ${note}`.toLowerCase().includes(words));
  const sections = await Promise.all(found.slice(0, MOST_MAPS).map(async (map) => {
    const answer = map.days === 0 ? null : await api.harvests(map.name);
    return section(map, answer);
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
    element("h1", {}, text("harvestsTitle")), search && element("p", { class: "search" }, search), legend(),
    ...sections, more ? element("p", { role: "status" }, more) : null,
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

/** @param {api.MapSummary} map @param {api.Harvests | null} answer */
function section(map, answer) {
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
  return element("section", {}, title, note,
    element("p", { class: "facts" }, facts.join(" · ")), progress(map.name, answer), table(map.name, answer.harvests));
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
  const end = harvest.reason === null ? text("endUnfinished")
    : harvest.reason in ENDS ? text(ENDS[/** @type {keyof typeof ENDS} */ (harvest.reason)]) : harvest.reason;
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
