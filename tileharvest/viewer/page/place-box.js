/** Where am I: coordinates, region file, the live map at the same place, and the link to what is shown. */
import { announce, part } from "./dom.js";
import { regionFile } from "./projection.js";
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

  /** @param {{x: number, z: number}} block @param {string | null} live its address on the live map */
  show({ x, z }, live) {
    part("coordinates").textContent = text("coordinates", { x: String(x), z: String(z) });
    part("region").textContent = regionFile(x, z);
    part("live").hidden = live === null;
    if (live !== null) part("live").href = live;
  }
}
