/** Making and finding parts of the page. */
import { text } from "./text.js";

const FAILURE_SHOWN = 15_000; // Milliseconds, unless something else is said before.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | EventListener>} attributes `on...` are listeners,
 *   `true` and `false` set and leave out an attribute
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** @param {string} words with commands between backticks @returns {HTMLSpanElement} in which they look like commands */
export function phrase(words) {
  const parts = words.split("`");
  return element("span", {}, ...parts.map((part, place) => (place % 2 === 1 ? element("code", {}, part) : part)));
}

/** @param {string} id @returns {any} the element of index.html. A missing one is a bug */
export function part(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Show this content in a part, unless it shows the same already. The page looks again every few seconds, and a link
 * must not lose the focus each time.
 * @param {string} id
 * @param {Node[]} content
 */
export function fill(id, content) {
  const shown = part(id).childNodes;
  const isShown = shown.length === content.length && content.every((node, place) => node.isEqualNode(shown[place]));
  if (!isShown) part(id).replaceChildren(...content);
}

/**
 * Return a function that runs the last of many calls when no other has come for a while.
 * @template {unknown[]} A
 * @param {number} milliseconds
 * @param {(...values: A) => void} action
 */
export function settled(milliseconds, action) {
  let timer = 0;
  return (/** @type {A} */ ...values) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => action(...values), milliseconds);
  };
}

/** Say something to screen readers. @param {string} words */
export function announce(words) {
  part("announcement").textContent = words;
  hideAnnouncement();
}

/** Say on the screen and to screen readers what went wrong. @param {unknown} error */
export function announceFailure(error) {
  announce(text("failed", { message: String(error) }));
  part("announcement").classList.remove("unseen");
  hideLater();
}

function hideAnnouncement() {
  part("announcement").classList.add("unseen");
}

const hideLater = settled(FAILURE_SHOWN, hideAnnouncement);
