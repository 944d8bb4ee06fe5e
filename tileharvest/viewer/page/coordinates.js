/**
 * The form in which people read and type the places of a layer: blocks, degrees of the earth, or tiles if the
 * projection is not known.
 *
 * @typedef {import("./projection.js").GridPoint} GridPoint
 * @typedef {import("./projection.js").Place} Place
 * @typedef {object} Coordinates
 * @property {number} digits behind the point, with which addresses name a place
 * @property {string} example the key of the words in the empty field
 * @property {string} wrong the key of the words that say what can be typed
 * @property {(point: GridPoint) => string} inWords
 * @property {(point: GridPoint) => Place} named the place that the words name
 * @property {(point: GridPoint) => string | null} region the region's file; null: there are no regions
 * @property {(words: string) => Place | null} typed the place that was typed; null: it is none
 */
import { blockIn, pairIn } from "./destination.js";
import { tileAt, cellOf } from "./grid.js";
import { atUsualHeight, blockAt, gridToWorld, placeAt, regionFile } from "./projection.js";
import { latitudeOf, southOf } from "./renderers/xyz.js";
import { text } from "./text.js";

const DIGITS_OF_DEGREES = 5; // A metre.

/**
 * @param {import("./renderers/registry.js").Renderer} renderer
 * @param {import("./projection.js").Layout} layout
 * @returns {Coordinates}
 */
export function coordinatesOf(renderer, layout) {
  if (layout.projection === null) return tiles(layout);
  if (!renderer.inDegrees) return blocks(layout);
  return renderer.inDegrees(layout) ? degrees(layout) : { ...blocks(layout), region: () => null };
}

/** @param {import("./projection.js").Layout} layout @returns {Coordinates} */
function blocks(layout) {
  return {
    digits: 1,
    example: "goToExample",
    wrong: "goToWrong",
    inWords: (point) => {
      const { x, z } = blockAt(point, layout);
      return text("coordinates", { x: String(x), z: String(z) });
    },
    named: (point) => blockAt(point, layout),
    region: (point) => {
      const { x, z } = blockAt(point, layout);
      return regionFile(x, z);
    },
    typed: (words) => {
      const block = blockIn(words);
      if (block === null) return null;
      return block.y === null ? { x: block.x, z: block.z } : atUsualHeight(block, layout);
    },
  };
}

/** @param {import("./projection.js").Layout} layout @returns {Coordinates} */
function degrees(layout) {
  return {
    digits: DIGITS_OF_DEGREES + 1,
    example: "goToExampleDegrees",
    wrong: "goToWrongDegrees",
    inWords: (point) => {
      const { x, z } = placeAt(point, layout);
      const [latitude, longitude] = [latitudeOf(z), x].map((value) => value.toFixed(DIGITS_OF_DEGREES));
      return text("degrees", { latitude, longitude });
    },
    named: (point) => gridToWorld(point, layout),
    region: () => null,
    // A place counts from the middle of its unit, which degrees do not.
    typed: (words) => {
      const [latitude, longitude] = pairIn(words) ?? [];
      if (latitude === undefined || longitude === undefined) return null;
      return { x: longitude - 0.5, z: southOf(latitude) - 0.5 };
    },
  };
}

/** @param {import("./projection.js").Layout} layout @returns {Coordinates} of the deepest zoom's tiles */
function tiles(layout) {
  return {
    digits: 3,
    example: "goToExampleTile",
    wrong: "goToWrongTile",
    inWords: ({ x, y }) => {
      const { column, row } = cellOf(tileAt(x, y, 0));
      return text("tilePlace", { column: String(column), row: String(row) });
    },
    named: (point) => gridToWorld(point, layout),
    region: () => null,
    typed: (words) => {
      // The page itself writes a word before the numbers.
      const [column, row] = pairIn(words.trim().replace(/^\p{L}+\s+/u, "")) ?? [];
      if (column === undefined || row === undefined) return null;
      return gridToWorld({ x: 2 * column + 1, y: -2 * row - 1 }, layout);
    },
  };
}
