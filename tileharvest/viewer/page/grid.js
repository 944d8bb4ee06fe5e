/**
 * The grid: names for tiles that survive the growth of a map. The same rules as the server's.
 *
 * At zoom 0, the deepest level, a tile covers 2 x 2 grid units and its centre has odd x and y; at zoom -n it
 * covers 2^(n+1) units and its centre lies at odd multiples of 2^n. x grows to the right, y grows up.
 *
 * Everything is counted with powers and Math.floor, never with bits: JavaScript's bits end at 32.
 *
 * @typedef {{zoom: number, x: number, y: number}} Tile named by its centre
 * @typedef {{zoom: number, xFrom: number, xTo: number, yFrom: number, yTo: number}} Area centres of tiles,
 *   edges included
 */

const NAME = /^(0|-[1-9]\d*)_(-?[1-9]\d*)_(-?[1-9]\d*)$/;
const CHUNK_LEVELS = 4; // 2^4 = 16 tiles along an edge.

/** @param {Tile} tile @returns {string} such as `-3_-440_216` */
export function tileName({ zoom, x, y }) {
  return `${zoom}_${x}_${y}`;
}

/**
 * @param {string} name
 * @returns {Tile}
 * @throws {RangeError} if no tile has that name
 */
export function parseTile(name) {
  const [zoom, x, y] = (NAME.exec(name) ?? []).slice(1).map(Number);
  if (zoom === undefined || !isCentre(x, zoom) || !isCentre(y, zoom)) {
    throw new RangeError(`'${name}' is not a tile's name: write zoom_x_y, such as 0_1_1 or -3_-440_216`);
  }
  return { zoom, x, y };
}

/** @param {Tile} tile @returns {number} grid units from the centre to each edge: half the tile's width */
export function reachOf({ zoom }) {
  return 2 ** -zoom;
}

/**
 * @param {Tile} tile
 * @param {number} levels up, at least 0: then it is the tile itself
 * @returns {Tile}
 */
export function ancestor({ zoom, x, y }, levels) {
  return tileAt(x, y, zoom - levels);
}

/**
 * The tile that covers a point. A point on the edge of two tiles belongs to the right or the upper one.
 * @param {number} gridX @param {number} gridY @param {number} zoom at most 0
 * @param {number} [factor] how many tiles of the next deeper zoom lie along a tile's edge
 * @returns {Tile}
 */
export function tileAt(gridX, gridY, zoom, factor = 2) {
  const width = widthOf(zoom, factor);
  return tileAtCell(Math.floor(gridX / width), -1 - Math.floor(gridY / width), zoom);
}

/**
 * How wide a tile is. With a factor of 2 that is what the names of two neighbours differ by; with another one
 * names are only columns and rows in the same writing.
 * @param {number} zoom @param {number} factor
 * @returns {number} in grid units
 */
export function widthOf(zoom, factor) {
  return 2 * factor ** -zoom;
}

/**
 * The ground that a tile covers, in grid units.
 * @param {Tile} tile @param {number} factor
 * @returns {{west: number, east: number, south: number, north: number}}
 */
export function groundOf(tile, factor) {
  const { column, row } = cellOf(tile);
  const width = widthOf(tile.zoom, factor);
  return { west: column * width, east: (column + 1) * width, south: -(row + 1) * width, north: -row * width };
}

/**
 * The tiles from one column and row to another, both included.
 * @param {number} zoom @param {{column: number, row: number}} first @param {{column: number, row: number}} last
 * @returns {Area}
 */
export function areaOf(zoom, first, last) {
  const start = tileAtCell(first.column, first.row, zoom);
  const end = tileAtCell(last.column, last.row, zoom);
  return { zoom: start.zoom, xFrom: start.x, xTo: end.x, yFrom: end.y, yTo: start.y };
}

/**
 * The deepest area on the ground of these tiles that is not too large to be asked for.
 * @param {Tile[]} tiles of one zoom, at least one
 * @param {number} factor @param {number} deepest zoom
 * @param {number} most tiles along an edge
 * @returns {Area}
 */
export function finestArea(tiles, factor, deepest, most) {
  const cells = tiles.map(cellOf);
  const columns = cells.map(({ column }) => column);
  const rows = cells.map(({ row }) => row);
  let [left, right, top, bottom] = [Math.min(...columns), Math.max(...columns), Math.min(...rows), Math.max(...rows)];
  let { zoom } = tiles[0];
  while (zoom < deepest && (Math.max(right - left, bottom - top) + 1) * factor <= most) {
    [left, right, top, bottom] = [left * factor, (right + 1) * factor - 1, top * factor, (bottom + 1) * factor - 1];
    zoom += 1;
  }
  return areaOf(zoom, { column: left, row: top }, { column: right, row: bottom });
}

/**
 * The tile of a column and a row of a screen's grid, which are counted from the map's centre: column 0 is the
 * first one to the right of it, row 0 the first one below it.
 * @param {number} column @param {number} row @param {number} zoom at most 0
 * @returns {Tile}
 */
export function tileAtCell(column, row, zoom) {
  const unit = 2 ** -zoom;
  // Adding 0 turns a negative zero, which rounding gives, into the usual one.
  return { zoom: zoom + 0, x: (2 * column + 1) * unit, y: -(2 * row + 1) * unit };
}

/** @param {Tile} tile @returns {{column: number, row: number}} what `tileAtCell` makes the tile of */
export function cellOf({ zoom, x, y }) {
  const width = 2 ** (1 - zoom);
  return { column: Math.floor(x / width), row: -1 - Math.floor(y / width) };
}

/**
 * The aligned block of tiles that a tile lies in, by default one of 16 x 16. Every tile of a block gives the same one.
 * @param {Tile} tile
 * @param {number} [levels] 2^levels tiles lie along its edge
 * @returns {Area}
 */
export function chunkOf(tile, levels = CHUNK_LEVELS) {
  const { x, y } = ancestor(tile, levels);
  const toLast = (2 ** levels - 1) * reachOf(tile);
  return { zoom: tile.zoom, xFrom: x - toLast, xTo: x + toLast, yFrom: y - toLast, yTo: y + toLast };
}

/** @param {number} coordinate @param {number} zoom */
function isCentre(coordinate, zoom) {
  return Number.isSafeInteger(coordinate) && Math.abs((coordinate / 2 ** -zoom) % 2) === 1;
}
