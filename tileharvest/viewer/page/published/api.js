/**
 * The answers of `api.js` from the lists of a published map, which `export/published_lists.py` writes.
 *
 * @typedef {import("../api.js").Tile} Tile
 * @typedef {import("../api.js").Area} Area
 * @typedef {{first: number, list: string | null, group: string | null}} Era its first day; the name of the list of its
 *   images, null for the last era if the images are at hand; and the list that tells this name, null once it is known
 * @typedef {{side: number, eras: Era[], last: string}} Part tiles whose images lie in the same lists: 8 x 8, or 4 x 4
 *   if they change often; and the images of the last era
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box columns and rows, all included
 * @typedef {[string, string, string]} Sums on which days, of the whole leaf, and the names of the lists of each row
 * @typedef {{d: string, t: string[], n?: string[], e: string[]}
 *   | {q: (string | 0)[], n: Sums | 0, o: Sums | 0}} Leaf as `export/published_lists.py` writes it
 */
import { ApiError, tileSizeOf } from "../api.js";
import { cellOf, parseTile, tileAtCell } from "../grid.js";
import { language } from "../text.js";

export { ApiError, tileSizeOf };

/** The smallest leaves have 2^2 = 4 tiles along an edge. */
export const BLOCK_LEVELS = 2;

const QUARTER = 4; // Tiles along the edge of a quarter of a leaf, which may be a leaf by itself.
const SIDE = 8; // Tiles along a whole leaf's edge, and leaves along a block's.
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const EXTENSIONS = { p: "png", j: "jpg", w: "webp" };
const NAMED = 11; // Signs of a name of 16 digits in base 64.
const CODED = 12; // Signs of an image: a letter for its kind, and its name.
const NONE = "0:A"; // Sums that are 0 on each day.
const GROUP = 8; // Eras whose names lie in a list of their own.
const MOST_TOLD = 50; // Events.

const index = await globalThis.listNamed(document.querySelector("script[data-index]")?.dataset.index);
/** The days that the numbers in the lists count. The page shows the last ones of them. @type {string[]} */
const every = daysIn(index.every);
/** @type {string[]} */
const shown = daysIn(index.days);

// An address that was made with a server may ask for the heat map.
const asked = new URLSearchParams(location.hash.slice(1));
if (asked.has("heat")) {
  asked.delete("heat");
  history.replaceState(null, "", `#${asked}`);
}

/** @param {string} map */
function expectMap(map) {
  if (map !== index.map.name) throw new ApiError(map, 404);
}

export async function maps() {
  const { name, url, note, layers } = index.map;
  return [{
    name, url, note, layers: layers.map((/** @type {any} */ layer) => layer.name), days: shown.length,
    first_day: shown[0], last_day: shown[shown.length - 1], areas: 0,
  }];
}

/** @param {string} map */
export async function outline(map) {
  expectMap(map);
  return { ...index.map, days: shown, composed: false };
}

/** @param {string} map @param {string} layer @returns {Promise<Tile[]>} the corners of what is there on the last day */
export async function reach(map, layer) {
  const [zoom, left, right, top, bottom] = index.layers[layer].reach;
  return zoom === undefined ? [] : [tileAtCell(left, top, zoom), tileAtCell(right, bottom, zoom)];
}

/**
 * @param {string} map @param {string} layer @param {string} day @param {Area} area
 * @returns {Promise<Map<string, string | null>>}
 */
export async function view(map, layer, day, area) {
  const number = numberOf(day);
  /** @type {Map<string, string | null>} */
  const addresses = new Map();
  await Promise.all(placesOf(area, QUARTER).map(async ([column, row]) => {
    const part = await partAt(layer, area.zoom, column, row);
    if (part === null || number < part.eras[0].first) return;
    const images = await imagesOf(part, part.eras.findLastIndex(({ first }) => first <= number));
    for (const [tile, { x, y }] of tilesOf(area, column, row, part.side)) {
      const latest = images[tile]?.findLast(([since]) => since <= number);
      if (latest !== undefined) addresses.set(`${x}_${y}`, addressOf(latest[1]));
    }
  }));
  return addresses;
}

/**
 * @param {string} layer @param {string} day @param {Tile[]} tiles
 * @returns {boolean} whether all lists are loaded that tell the tiles' images on that day
 */
export function isAtHand(layer, day, tiles) {
  const number = numberOf(day);
  return tiles.every((tile) => {
    const { column, row } = cellOf(tile);
    const part = parts.get(keyOf(layer, tile.zoom, Math.floor(column / QUARTER), Math.floor(row / QUARTER)));
    const { list, group } = part?.eras.findLast(({ first }) => first <= number) ?? { list: null, group: null };
    return group === null && (list === null || globalThis.hasList(digitsOf(list)));
  });
}

/** @param {string} image the name of its file */
export function imageAddress(image) {
  return image === "" ? "images/" : `images/${image.slice(0, 2)}/${image}`;
}

/**
 * The number of the deepest tiles below an area that changed, for each day with a change. If only tiles of the area's
 * own zoom changed on a day, these are counted.
 * @param {string} map @param {string} layer @param {Area} area
 * @returns {Promise<Map<string, number>>}
 */
export async function changes(map, layer, area) {
  /** @type {Map<string, number>[]} */
  const [own, deeper] = [new Map(), new Map()];
  const add = (/** @type {Map<string, number>} */ counts, /** @type {number} */ number, count = 1) => {
    const day = every[number];
    if (day >= shown[0]) counts.set(day, (counts.get(day) ?? 0) + count);
  };
  await Promise.all(placesOf(area, SIDE).map(async ([column, row]) => {
    const leaf = await leafAt(layer, area.zoom, column, row);
    if (leaf === null) return;
    const box = boxIn(area, column, row);
    if ("q" in leaf) {
      for (const [number, count] of await sumsIn(leaf.o, box)) add(own, number, count);
      for (const [number, count] of await sumsIn(leaf.n, box)) add(deeper, number, count);
      return;
    }
    const days = numbersIn(leaf.d);
    for (let tile = 0; tile < SIDE * SIDE; tile += 1) {
      const [across, down] = [tile % SIDE, Math.floor(tile / SIDE)];
      if (across < box.left || across > box.right || down < box.top || down > box.bottom) continue;
      const its = numbersIn(leaf.t[tile]).map((number) => days[number]);
      for (const number of its) add(own, number);
      const [counts, ...others] = (leaf.n?.[tile] ?? "").split(".");
      if (counts === "") continue;
      const below = others.length > 0 ? numbersIn(others.join(".")).map((number) => days[number]) : its;
      for (const [place, number] of below.entries()) add(deeper, number, numberIn(counts, place));
    }
  }));
  return new Map([...new Map([...own, ...deeper])].sort());
}

/** @param {string} map @param {string} layer @param {string} name of the tile */
export async function story(map, layer, name) {
  const { zoom, ...place } = parseTile(name);
  const { column, row } = cellOf({ zoom, ...place });
  const part = await partAt(layer, zoom, Math.floor(column / QUARTER), Math.floor(row / QUARTER));
  if (part === null) return [];
  const tile = modulo(row, part.side) * part.side + modulo(column, part.side);
  const eras = await Promise.all(part.eras.map((_, era) => imagesOf(part, era)));
  return eras.flatMap((images) => images[tile] ?? []).filter(([number]) => number >= 0).map(([number, code]) => ({
    day: every[number], image: code === "-" ? null : nameOf(code), size: null,
  }));
}

/**
 * @param {string} map @param {string} layer @param {{from: string, to: string}} period
 * @param {import("../api.js").Ground | null} ground
 */
export async function events(map, layer, { from, to }, ground) {
  const { months, firstAsked } = index.layers[layer];
  const names = Object.keys(months).filter((month) => month >= from.slice(0, 7) && month <= to.slice(0, 7));
  const lists = await Promise.all(names.map((month) => globalThis.listNamed(months[month])));
  const found = lists.flatMap((list) => list.events).filter((event) => {
    const [west, south, east, north] = event.ground;
    return event.first <= to && event.last >= from && (ground === null
      || (west < ground.east && east > ground.west && south < ground.north && north > ground.south));
  });
  // The lists have only the largest events of a month. Place and day of the others are not known.
  const left = lists.reduce((sum, list) => sum + list.count - list.events.length, 0);
  found.sort((one, other) => other.tiles - one.tiles || (one.first < other.first ? -1 : 1));
  return {
    settled: null, first_asked: firstAsked.filter((/** @type {string} */ day) => day >= from && day <= to),
    count: found.length, events: found.slice(0, MOST_TOLD), left,
  };
}

/** A published event has no picture; the link beside it shows both days. */
export function beforeAddress() {
  return null;
}

// These functions need a server. A page without a server never calls them.
export const composedAddress = () => "";
export const groundAddress = () => "";
export const sharedAddress = () => null;
export const areaPicture = () => "";
export const feedAddress = () => "";
export const groundFeedAddress = () => "";
export const areas = async () => [];
export const places = async () => [];
export const film = null;
export const areaFilm = refuse;
export const areaImage = refuse;
export const heat = refuse;
export const area = refuse;
export const harvests = refuse;
export const pixels = refuse;

/** @returns {Promise<any>} */
async function refuse() {
  const words = { zh: "这是已发布的页面，没有服务器可以回答这个问题" }[language()];
  throw new ApiError(words ?? "this page was published without a server, which alone could answer that", 404);
}

/** @param {string} written the first day, and from it on a bit for each day @returns {string[]} */
function daysIn(written) {
  const [first, bits] = written.split(" ");
  const start = Date.parse(`${first}T00:00:00Z`);
  return numbersIn(`0.${bits}`).map((after) => new Date(start + after * 86_400_000).toISOString().slice(0, 10));
}

/** @param {string} written a number, and from it on a bit for each that follows @returns {number[]} */
function numbersIn(written) {
  const [first, bits] = written.split(".");
  const numbers = [];
  for (let place = 0; place < (bits ?? "").length; place += 1) {
    const digit = DIGITS.indexOf(bits[place]);
    for (let bit = 0; bit < 6; bit += 1) if ((digit >> bit) & 1) numbers.push(Number(first) + 6 * place + bit);
  }
  return numbers;
}

/**
 * @param {string} numbers the least, a colon, the bits of each as a digit, and all less the least, the lowest bits first
 * @param {number} place @returns {number} the number at this place
 */
function numberIn(numbers, place) {
  const start = numbers.indexOf(":") + 1;
  const width = DIGITS.indexOf(numbers[start]);
  let number = Number(numbers.slice(0, start - 1));
  for (let bit = 0; bit < width; bit += 1) {
    const at = place * width + bit;
    const digit = DIGITS.indexOf(numbers[start + 1 + Math.floor(at / 6)] ?? DIGITS[0]);
    if ((digit >> (at % 6)) & 1) number += 2 ** bit;
  }
  return number;
}

/**
 * @param {Sums | 0} sums of a leaf @param {Box} box
 * @returns {Promise<[number, number][]>} the days on which tiles of the box changed, each with their number
 */
async function sumsIn(sums, { left, top, right, bottom }) {
  if (sums === 0) return [];
  const [written, whole, rows] = sums;
  /** The sums of all tiles that lie neither to the right of this one nor below it. */
  const upTo = async (/** @type {number} */ column, /** @type {number} */ row) => {
    if (column < 0 || row < 0) return NONE;
    if (column === SIDE - 1 && row === SIDE - 1) return whole;
    return listIn(namesIn(await listIn(namesIn(rows)[row]))[column]);
  };
  const [all, before, above, both] = await Promise.all([
    upTo(right, bottom), upTo(left - 1, bottom), upTo(right, top - 1), upTo(left - 1, top - 1),
  ]);
  return numbersIn(written).map((day, at) => /** @type {[number, number]} */ (
    [day, numberIn(all, at) - numberIn(before, at) - numberIn(above, at) + numberIn(both, at)]
  )).filter(([, count]) => count > 0);
}

/** @param {string} day @returns {number} of the last harvest until then */
function numberOf(day) {
  return every.findLastIndex((harvested) => harvested <= day);
}

/** @param {number} value @param {number} divisor @returns {number} never below 0 */
function modulo(value, divisor) {
  return ((value % divisor) + divisor) % divisor;
}

/**
 * @param {Area} area @param {number} side of squares, in tiles
 * @returns {[number, number][]} columns and rows of the squares in which the area has a part
 */
function placesOf(area, side) {
  const { left, top, right, bottom } = edgesOf(area);
  const span = (/** @type {number} */ from, /** @type {number} */ to) => {
    const start = Math.floor(from / side);
    return Array.from({ length: Math.floor(to / side) - start + 1 }, (_, number) => start + number);
  };
  const rows = span(top, bottom);
  return span(left, right).flatMap((column) => rows.map((row) => /** @type {[number, number]} */ ([column, row])));
}

/** @param {Area} area @returns {Box} its columns and rows */
function edgesOf({ zoom, xFrom, xTo, yFrom, yTo }) {
  const { column: left, row: top } = cellOf({ zoom, x: xFrom, y: yTo });
  const { column: right, row: bottom } = cellOf({ zoom, x: xTo, y: yFrom });
  return { left, top, right, bottom };
}

/** @param {Area} area @param {number} column @param {number} row of a leaf @returns {Box} the area's part of the leaf */
function boxIn(area, column, row) {
  const { left, top, right, bottom } = edgesOf(area);
  return {
    left: Math.max(0, left - column * SIDE), right: Math.min(SIDE - 1, right - column * SIDE),
    top: Math.max(0, top - row * SIDE), bottom: Math.min(SIDE - 1, bottom - row * SIDE),
  };
}

/**
 * The tiles of an area in a quarter, each with its number in its part.
 * @param {Area} area @param {number} column @param {number} row of the quarter @param {number} side of the part
 * @returns {Generator<[number, Tile]>}
 */
function* tilesOf({ zoom, xFrom, xTo, yFrom, yTo }, column, row, side) {
  for (let down = row * QUARTER; down < (row + 1) * QUARTER; down += 1) {
    for (let across = column * QUARTER; across < (column + 1) * QUARTER; across += 1) {
      const tile = tileAtCell(across, down, zoom);
      const isIn = tile.x >= xFrom && tile.x <= xTo && tile.y >= yFrom && tile.y <= yTo;
      if (isIn) yield [modulo(down, side) * side + modulo(across, side), tile];
    }
  }
}

/** @type {Map<string, Part>} those that were read, by layer, zoom, and column and row of a quarter */
const parts = new Map();

/** @param {string} layer @param {number} zoom @param {number} column @param {number} row */
function keyOf(layer, zoom, column, row) {
  return `${layer} ${zoom} ${column} ${row}`;
}

/**
 * @param {string} layer @param {number} zoom @param {number} column @param {number} row of the leaf
 * @returns {Promise<Leaf | null>}
 */
async function leafAt(layer, zoom, column, row) {
  const name = index.layers[layer]?.zooms[zoom]?.[`${Math.floor(column / SIDE)}_${Math.floor(row / SIDE)}`];
  if (name === undefined) return null;
  const block = await globalThis.listNamed(name);
  return await listIn(block[modulo(row, SIDE) * SIDE + modulo(column, SIDE)]) || null;
}

/**
 * @param {string} layer @param {number} zoom @param {number} column @param {number} row of a quarter
 * @returns {Promise<Part | null>} in which it lies
 */
async function partAt(layer, zoom, column, row) {
  const key = keyOf(layer, zoom, column, row);
  const known = parts.get(key);
  if (known !== undefined) return known;
  const leaf = await leafAt(layer, zoom, Math.floor(column / 2), Math.floor(row / 2));
  if (leaf === null) return null;
  const isCut = "q" in leaf;
  const found = isCut ? await listIn(leaf.q[modulo(row, 2) * 2 + modulo(column, 2)]) : leaf.e;
  if (found === 0) return null;
  const [begun, names, last] = found;
  const firsts = numbersIn(begun);
  const named = namesIn(names);
  // The last era is in no group, because its list may be replaced.
  const groups = Math.floor((firsts.length - 1) / GROUP);
  const eras = firsts.map((first, era) => (era < GROUP * groups
    ? { first, list: null, group: named[Math.floor(era / GROUP)] }
    : { first, list: named[groups + era - GROUP * groups] ?? null, group: null }));
  const part = { side: isCut ? QUARTER : SIDE, eras, last };
  parts.set(key, part);
  return part;
}

/** @param {any} found a list, or its name in base 64 @returns {any} the list */
function listIn(found) {
  return typeof found === "string" ? globalThis.listNamed(digitsOf(found)) : found;
}

/** @param {Part} part @param {number} era @returns {Promise<string | null>} the name of the list of its images */
async function listOf({ eras }, era) {
  const { group } = eras[era];
  if (group !== null) {
    const start = era - (era % GROUP);
    for (const [after, list] of namesIn(await listIn(group)).entries()) {
      Object.assign(eras[start + after], { list, group: null });
    }
  }
  return eras[era].list;
}

/** @param {string} names one behind the other @returns {string[]} */
function namesIn(names) {
  return Array.from({ length: names.length / NAMED }, (_, at) => names.slice(NAMED * at, NAMED * (at + 1)));
}

/** @param {string} name in base 64 @returns {string} its digits */
function digitsOf(name) {
  const bytes = atob(`${name.replaceAll("-", "+").replaceAll("_", "/")}=`);
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

/**
 * @param {Part} part @param {number} era
 * @returns {Promise<[number, string][][]>} days and images of each tile. Those from before the era have the day -1
 */
async function imagesOf(part, era) {
  const list = await listOf(part, era);
  const [before, ...came] = (list === null ? part.last : await listIn(list)).split(".");
  const images = /** @type {[number, string][][]} */ ([]);
  const add = (/** @type {number} */ day, /** @type {string} */ entries) => {
    for (let at = 0; at < entries.length;) {
      const end = at + 1 + (entries[at + 1] === "-" ? 1 : CODED);
      (images[DIGITS.indexOf(entries[at])] ??= []).push([day, entries.slice(at + 1, end)]);
      at = end;
    }
  };
  add(-1, before);
  for (const ofDay of came) {
    const [after, entries] = ofDay.split(":");
    add(part.eras[era].first + Number(after), entries);
  }
  return images;
}

/** @param {string} code @returns {string} the name and extension of an image's file */
function nameOf(code) {
  return `${digitsOf(code.slice(1))}.${EXTENSIONS[/** @type {"p" | "j" | "w"} */ (code[0])]}`;
}

/** @param {string} code @returns {string | null} where the image lies; null: the tile was gone */
function addressOf(code) {
  return code === "-" ? null : imageAddress(nameOf(code));
}
