/** Days: ISO dates in texts and in the API, whole numbers on the time slider. */
import { language } from "./text.js";

const MILLISECONDS = 86_400_000;
/** @type {Map<string, Intl.DateTimeFormat>} by language and options. To make one takes as long as to write a hundred days */
const formats = new Map();

/** @param {string} day ISO date @returns {number} days since 1970-01-01 */
export function dayNumber(day) {
  return Math.round(Date.parse(`${day}T00:00:00Z`) / MILLISECONDS);
}

/** @param {number} count days since 1970-01-01 @returns {string} ISO date */
export function dayOf(count) {
  return new Date(count * MILLISECONDS).toISOString().slice(0, 10);
}

/** @param {string} day ISO date @param {"long" | "medium" | "full" | "short"} [style] short: without the year */
export function dayInWords(day, style = "medium") {
  const options = style === "short" ? { month: style, day: /** @type {const} */ ("numeric") } : { dateStyle: style };
  return formatOf(options).format(new Date(`${day}T00:00:00Z`));
}

/** @param {number} year @param {number} month from 0 @param {"long" | "short"} [style] short: without the year */
export function monthInWords(year, month, style = "long") {
  const parts = style === "long" ? { year: "numeric", month: "long" } : { month: "short" };
  return formatOf(/** @type {any} */ (parts)).format(new Date(Date.UTC(year, month, 1)));
}

/** @returns {string[]} short names, Monday first */
export function weekdays() {
  const format = formatOf({ weekday: "narrow" });
  // 1970-01-05 was a Monday.
  return Array.from({ length: 7 }, (_, index) => format.format(new Date((4 + index) * MILLISECONDS)));
}

/** @param {Intl.DateTimeFormatOptions} options @returns {Intl.DateTimeFormat} in the reader's language */
function formatOf(options) {
  const key = JSON.stringify([language(), options]);
  let format = formats.get(key);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(language(), { ...options, timeZone: "UTC" });
    formats.set(key, format);
  }
  return format;
}

/** @param {import("./state.js").Range} range */
export function rangeInWords(range) {
  return `${dayInWords(range.after)} – ${dayInWords(range.until)}`;
}
