/**
 * The place to which a person wants to go, read from the typed text. Pure.
 *
 * @typedef {{x: number, y: number | null, z: number}} Destination the middle of a block; null: at the usual height
 */
import { REGION } from "./projection.js";

const NUMBER = String.raw`(-?\d{1,9}(?:\.\d+)?)`;
const APART = String.raw`[\s,;/、，]+`;
const NUMBERS = new RegExp(String.raw`^${NUMBER}°?${APART}(?:${NUMBER}${APART})?${NUMBER}°?$`);
/** A place as the page writes it, or as players do. */
const LETTERED = new RegExp(
  String.raw`^x\s*[:=]?\s*${NUMBER}${APART}(?:y\s*[:=]?\s*${NUMBER}${APART})?z\s*[:=]?\s*${NUMBER}$`, "i");
/** The game's command, also as F3 + C copies it, with words before it and directions behind it. */
const COMMAND = new RegExp(
  String.raw`^/?(?:.*\srun\s+)?(?:minecraft:)?(?:tp|teleport)\s+(?:[^\s\d-]\S*\s+)?${NUMBER}\s+${NUMBER}\s+${NUMBER}(?:\s|$)`,
  "i");
const REGION_FILE = /^r\.(-?\d{1,7})\.(-?\d{1,7})(?:\.mc[ar])?$/i;

/** @param {string} typed @returns {Destination | null} of a world of blocks; null: it is none */
export function blockIn(typed) {
  const words = typed.trim();
  const region = REGION_FILE.exec(words);
  if (region !== null) {
    const middle = (/** @type {string} */ number) => Number(number) * REGION + REGION / 2;
    return { x: middle(region[1]), y: null, z: middle(region[2]) };
  }
  const found = COMMAND.exec(words) ?? LETTERED.exec(words) ?? NUMBERS.exec(words);
  if (found === null) return null;
  const [, x, y, z] = found;
  return { x: Number(x), y: y === undefined ? null : Number(y), z: Number(z) };
}

/** @param {string} typed @returns {[number, number] | null} two numbers; null: it is something else */
export function pairIn(typed) {
  const found = NUMBERS.exec(typed.trim());
  return found === null || found[2] !== undefined ? null : [Number(found[1]), Number(found[3])];
}
