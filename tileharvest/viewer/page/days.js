/** Days: ISO dates in texts and in the API, whole numbers on the time slider. */
import { language } from "./text.js";

const MILLISECONDS = 86_400_000;

/** @param {string} day ISO date @returns {number} days since 1970-01-01 */
export function dayNumber(day) {
  return Math.round(Date.parse(`${day}T00:00:00Z`) / MILLISECONDS);
}

/** @param {number} count days since 1970-01-01 @returns {string} ISO date */
export function dayOf(count) {
  return new Date(count * MILLISECONDS).toISOString().slice(0, 10);
}

/** @param {string} day ISO date @param {"long" | "medium" | "full"} [style] */
export function dayInWords(day, style = "medium") {
  const format = new Intl.DateTimeFormat(language(), { dateStyle: style, timeZone: "UTC" });
  return format.format(new Date(`${day}T00:00:00Z`));
}

/** @param {number} year @param {number} month from 0 @param {"long" | "short"} [style] short: without the year */
export function monthInWords(year, month, style = "long") {
  const parts = style === "long" ? { year: "numeric", month: "long" } : { month: "short" };
  const format = new Intl.DateTimeFormat(language(), { .../** @type {any} */ (parts), timeZone: "UTC" });
  return format.format(new Date(Date.UTC(year, month, 1)));
}

/** @returns {string[]} short names, Monday first */
export function weekdays() {
  const format = new Intl.DateTimeFormat(language(), { weekday: "narrow", timeZone: "UTC" });
  // 1970-01-05 was a Monday.
  return Array.from({ length: 7 }, (_, index) => format.format(new Date((4 + index) * MILLISECONDS)));
}

/** @param {import("./state.js").Range} range */
export function rangeInWords(range) {
  return `${dayInWords(range.after)} – ${dayInWords(range.until)}`;
}
