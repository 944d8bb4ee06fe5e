/** The texts of the page in the reader's language, and how numbers, sizes and times are written in it. */
import en from "./texts/en.js";

/** The languages' own names by their codes. */
export const LANGUAGES = { en: "English", zh: "中文" };
const REMEMBERED = "tileharvest.language";

let current = "en";
/** @type {Record<string, string>} */
let texts = en;
await speak(preferred());

/** @returns {string} the chosen one, the browser's, or English */
function preferred() {
  const wanted = [remembered(REMEMBERED), ...navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase())];
  return wanted.find((code) => code !== null && code in LANGUAGES) ?? "en";
}

/** @returns {string} such as `en` */
export function language() {
  return current;
}

/** @param {string} code of `LANGUAGES` */
export async function chooseLanguage(code) {
  remember(REMEMBERED, code);
  await speak(code);
}

/** Load the texts of a language, if they are not loaded yet. @param {string} code of `LANGUAGES` */
async function speak(code) {
  if (code !== "en") texts = (await import(`./texts/${code}.js`)).default;
  else texts = en;
  current = code;
}

/**
 * @param {string} key
 * @param {Record<string, string | number>} [values] for the `{name}`s in the text
 * @returns {string}
 */
export function text(key, values = {}) {
  const template = texts[key] ?? en[/** @type {keyof typeof en} */ (key)];
  return template.replace(/\{(\w+)(?:\|(.*?)\|(.*?))?\}/g, (_, name, one, more) => {
    const value = values[name];
    if (more) return value === 1 ? one : more;
    return typeof value === "number" ? number(value) : printable(String(value));
  });
}

/** @param {string} words that a site has written @returns {string} the words, with invisible characters written as `\u202e` */
export function printable(words) {
  const escaped = (/** @type {string} */ sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`;
  return words.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, escaped);
}

/**
 * Write the texts into all elements below `root` that name one. `data-label` becomes a label for screen readers and a
 * tooltip.
 * @param {ParentNode} root
 */
export function translate(root) {
  document.documentElement.lang = current;
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(
    "[data-text], [data-label], [data-hint], [data-placeholder]",
  ))) {
    const { text: content, label, hint, placeholder } = node.dataset;
    if (content) node.textContent = text(content);
    if (label) {
      node.setAttribute("aria-label", text(label));
      node.title = text(label);
    }
    if (hint) node.title = text(hint);
    if (placeholder) node.setAttribute("placeholder", text(placeholder));
  }
}

/**
 * @param {number} value
 * @param {number} [digits] after the decimal point, at most
 */
export function number(value, digits = 0) {
  return new Intl.NumberFormat(current, { maximumFractionDigits: digits }).format(value);
}

const LEAST_SHARE = 0.0005; // What is rounded to 0.1 %.

/** @param {number} share 0 to 1, of a picture that changed @returns {string} never 0 % if anything changed */
export function changedInWords(share) {
  if (share > 0 && share < LEAST_SHARE) return text("storyShareLeast");
  return text("storyShare", { percent: number(share * 100, share < 0.1 ? 1 : 0) });
}

/** @param {number} bytes @returns {string} in powers of 1000, such as `1.2 MB` */
export function bytesInWords(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.95 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${number(value, unit === 0 ? 0 : 1)} ${units[unit]}`;
}

/** @param {number} seconds */
export function durationInWords(seconds) {
  if (seconds < 100) return text("seconds", { n: Math.round(seconds) });
  if (seconds < 6000) return text("minutes", { n: Math.round(seconds / 60) });
  return text("hours", { n: Math.round(seconds / 3600) });
}

/**
 * A choice that outlives the page. A browser may refuse to keep any.
 * @param {string} name
 * @returns {string | null}
 */
export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice holds until the page is closed.
  }
}
