/**
 * The box of the place on the screen: coordinates, region file, the live map there, the link to copy, and the field
 * for another place.
 */
import { announce, element, part } from "./dom.js";
import { text } from "./text.js";

const THANKS = 2000; // Milliseconds for which the button says that the link is copied.

export class PlaceBox {
  /** @param {() => string} link to what is shown */
  constructor(link) {
    part("share").addEventListener("click", () => this.#share(link()));
    part("share-link").addEventListener("blur", () => (part("share-by-hand").hidden = true));
    part("share-link").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      part("share").focus();
    });
  }

  /** @param {string} link */
  async #share(link) {
    const button = part("share");
    if (!(await isCopied(link))) {
      // The link is selected, so that a person can copy it with the keys.
      part("share-by-hand").hidden = false;
      part("share-link").value = link;
      part("share-link").select();
      return;
    }
    announce(text("copied"));
    button.textContent = text("copied");
    setTimeout(() => (button.textContent = text("copyLink")), THANKS);
  }

  /** @param {string} example the key of words that say how a place is typed */
  ask(example) {
    const field = part("go-to-place");
    field.dataset.placeholder = example;
    field.placeholder = text(example);
  }

  /**
   * @param {string} words where it is @param {string | null} region its region's file, where it has one
   * @param {string | null} live its address on the live map
   */
  show(words, region, live) {
    part("coordinates").textContent = words;
    part("region").textContent = region ?? "";
    part("region").hidden = region === null;
    part("live").hidden = live === null;
    if (live !== null) part("live").href = live;
  }
}

/**
 * Copy words without the clipboard, which a page over plain http from another computer does not have. Most browsers
 * still copy a selection.
 * @param {string} words @returns {Promise<boolean>}
 */
export async function isCopied(words) {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(words).then(() => true, () => false);
  const field = element("textarea", { class: "unseen", readonly: true }, words);
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return done;
}
