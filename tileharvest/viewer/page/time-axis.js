/**
 * The part of the history that the slider shows, and the labels along it. Pure.
 *
 * Days are counted from 1970-01-01, as `days.js` does.
 *
 * @typedef {{from: number, to: number}} Span days, both included
 * @typedef {"year" | "month" | "day"} Unit
 * @typedef {{day: number, unit: Unit}} Label stands at the first day of its year or month, or at its day
 */
import { dayNumber, dayOf } from "./days.js";

const SHORTEST = 7; // Days: nearer there is nothing more to see.
const STEP = 2; // By which a notch of the wheel, or a press, narrows the span.
const ROOM = 56; // Pixels that a label needs.
/** How many months lie between two labels. */
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120];
const DAYS = [1, 2, 7];
const DAYS_OF_MONTH = 30.4;

/**
 * @param {Span} span @param {Span} whole @param {number} at the day that keeps its place
 * @param {number} turns above 0: nearer, below: farther
 * @returns {Span}
 */
export function nearer(span, whole, at, turns) {
  const length = span.to - span.from;
  const longest = whole.to - whole.from;
  const wanted = Math.round(length / STEP ** turns);
  const now = Math.min(longest, Math.max(Math.min(SHORTEST, longest), wanted));
  const share = length === 0 ? 0 : (at - span.from) / length;
  return within({ from: Math.round(at - share * now), to: Math.round(at - share * now) + now }, whole);
}

/** @param {Span} span @param {number} days to the right @param {Span} whole @returns {Span} */
export function moved({ from, to }, days, whole) {
  return within({ from: from + days, to: to + days }, whole);
}

/** @param {Span} span @param {number} day @param {Span} whole @returns {Span} moved so far that it has the day */
export function including(span, day, whole) {
  if (day >= span.from && day <= span.to) return span;
  return moved(span, day - Math.round((span.from + span.to) / 2), whole);
}

/** @param {Span} span not longer than the whole @param {Span} whole @returns {Span} */
function within({ from, to }, whole) {
  const by = Math.max(0, whole.from - from) - Math.max(0, to - whole.to);
  return { from: from + by, to: to + by };
}

/** @param {Span} span @param {number} width in pixels @returns {Label[]} as many as there is room for */
export function labelsOf({ from, to }, width) {
  const most = Math.max(1, width / ROOM);
  const length = to - from + 1;
  const days = DAYS.find((step) => length / step <= most);
  if (days !== undefined) {
    return Array.from({ length: Math.ceil(length / days) }, (_, index) => unitOf(from + index * days));
  }
  const step = MONTHS.find((months) => length / DAYS_OF_MONTH / months <= most) ?? MONTHS[MONTHS.length - 1];
  const [year, month] = dayOf(from).split("-").map(Number);
  const labels = [];
  // Months are counted from year 0, so that with a step of 12 or more the labels stand at years.
  for (let months = Math.floor((year * 12 + month - 1) / step) * step; ; months += step) {
    const first = `${String(Math.floor(months / 12)).padStart(4, "0")}-${String((months % 12) + 1).padStart(2, "0")}-01`;
    const day = dayNumber(first);
    if (day > to) return labels;
    if (day >= from) labels.push(unitOf(day));
  }
}

/** @param {number} day @returns {Label} */
function unitOf(day) {
  const name = dayOf(day);
  return { day, unit: name.endsWith("-01-01") ? "year" : name.endsWith("-01") ? "month" : "day" };
}
