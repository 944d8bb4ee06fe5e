/** The panel beside the map; on a narrow screen it comes up from below. */
import { part } from "./dom.js";

export class Panel {
  /** @param {() => void} onClose */
  constructor(onClose) {
    this.onClose = onClose;
    this.kind = "";
    part("panel-close").addEventListener("click", () => this.#leave());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && part("calendar").hidden) this.#leave();
    });
  }

  /** @param {string} kind what it is about @param {string} title @param {Node | string} content */
  open(kind, title, content) {
    const focused = /** @type {HTMLElement | null} */ (
      part("panel").contains(document.activeElement) ? document.activeElement : null
    );
    this.kind = kind;
    part("panel-title").textContent = title;
    part("panel-body").replaceChildren(content);
    part("panel").hidden = false;
    // A control that was drawn again keeps the focus.
    if (focused?.id) document.getElementById(focused.id)?.focus();
  }

  /** @param {string} kind @returns {boolean} whether it is open, and about this */
  isOpen(kind) {
    return !part("panel").hidden && this.kind === kind;
  }

  /** @param {string} [kind] close it only if it is about this */
  close(kind) {
    if (part("panel").hidden || (kind !== undefined && kind !== this.kind)) return;
    part("panel").hidden = true;
    this.onClose();
  }

  #leave() {
    if (part("panel").hidden) return;
    this.close();
    part("map").focus();
  }
}
