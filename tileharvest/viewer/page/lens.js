/**
 * The time lens. It follows the mouse, whose wheel turns its time. Without a mouse, a finger drags it, and two
 * fingers on it turn its time. Beside the lens, fingers move the map.
 */
import { part } from "./dom.js";

const NOTCH = 80; // Pixels for one change, of those that a wheel counts: its notch is 100 to 120.
const STRIDE = 40; // Pixels for one change, that two fingers move.
const LINE = 40; // Pixels of a line, in which some browsers count.

/**
 * @param {(x: number, y: number) => void} move to there, as shares of the stage's width and height
 * @param {(direction: -1 | 1) => void} turn to the change before or after
 */
export function listenToLens(move, turn) {
  const stage = part("stage");
  const lens = part("lens");
  /** @type {Map<number, PointerEvent>} the last places of the fingers on the lens */
  const fingers = new Map();
  let isTurning = false;
  let turned = 0;
  const isOn = (/** @type {Event} */ event) =>
    !lens.hidden && /** @type {Element} */ (event.target).closest(".map, .lens") !== null;
  const moveTo = (/** @type {PointerEvent} */ event) => {
    const box = stage.getBoundingClientRect();
    move((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  };
  const turnBy = (/** @type {number} */ pixels, /** @type {number} */ most) => {
    turned += pixels;
    if (Math.abs(turned) < most) return;
    turn(turned > 0 ? 1 : -1);
    turned = 0;
  };

  stage.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    // The mouse acts through the lens on the map, which it must be able to drag.
    lens.classList.toggle("passed", event.pointerType === "mouse");
    if (event.pointerType === "mouse" && isOn(event)) moveTo(event);
  }, { capture: true });
  stage.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    // With Ctrl, which two fingers on a touchpad send, the map is enlarged.
    if (!isOn(event) || event.ctrlKey) return;
    event.preventDefault();
    event.stopPropagation();
    turnBy(-event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : LINE), NOTCH);
  }, { capture: true, passive: false });
  lens.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    lens.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event);
    if (fingers.size > 1) isTurning = true;
    turned = 0;
  });
  lens.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    fingers.set(event.pointerId, event);
    // To the right and up is later, as along the slider and with the wheel.
    const way = event.clientX - before.clientX - (event.clientY - before.clientY);
    if (!isTurning) moveTo(event);
    else if (fingers.size > 1) turnBy(way / fingers.size, STRIDE);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    lens.addEventListener(name, (/** @type {PointerEvent} */ event) => {
      fingers.delete(event.pointerId);
      // The finger that is lifted last must not drag the lens to itself.
      if (fingers.size === 0) isTurning = false;
    });
  }
}
