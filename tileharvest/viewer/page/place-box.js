/** Where am I: coordinates, region file, the live map at the same place, the link to what is shown; and where to. */
import { announce, part } from "./dom.js";
import { text } from "./text.js";

export class PlaceBox {
  constructor() {
    part("share").addEventListener("click", async () => {
      await navigator.clipboard?.writeText(location.href).catch(() => {});
      announce(text("copied"));
      part("share").textContent = text("copied");
      setTimeout(() => (part("share").textContent = text("copyLink")), 2000);
    });
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
