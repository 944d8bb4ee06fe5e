/** The heat map: on how many days each cell changed, as colours over the map and as a list of places. */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { cellOf, chunkOf, parseTile } from "./grid.js";
import { PromiseCache } from "./promise-cache.js";
import { text } from "./text.js";

const MOST_BLOCKS = 100;

/**
 * The shades from few days to many. The last one stands for all higher numbers. All are visible over grass, sea, snow
 * and lava.
 */
const SHADES = ["#ffe45c", "#ffb02e", "#ff6f2e", "#dd2934", "#a3127a"];
const LIGHT_SHADES = 3; // The first ones, on which dark figures are legible.

/** @param {number} days @param {number} most the highest number in the range @returns {string} a colour */
export function shadeOf(days, most) {
  if (most <= 1) return SHADES[2];
  const share = Math.log(days) / Math.log(most);
  return SHADES[Math.min(SHADES.length - 1, Math.floor(share * SHADES.length))];
}

export class Heat {
  /**
   * @param {string} map @param {string} layer @param {import("./state.js").Range} range
   * @param {number} factor how many tiles of the next deeper zoom lie along a tile's edge
   */
  constructor(map, layer, range, factor) {
    this.map = map;
    this.layer = layer;
    this.range = range;
    this.factor = factor;
    this.blocks = new PromiseCache(MOST_BLOCKS);
  }

  /**
   * @param {number} most days on which a cell can have changed, where the last shade begins
   * @returns {import("./map-view.js").Drawing}
   */
  drawing(most) {
    return async (tile, canvas) => {
      const { zoom, cells } = await this.#block(tile);
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      // The cells along the edge of a tile of the screen. There is less than one if tiles are enlarged.
      const share = this.factor ** (zoom - tile.zoom);
      const width = canvas.width / Math.max(1, share);
      const height = canvas.height / Math.max(1, share);
      const here = cellOf(tile);
      for (const [x, y, days] of cells) {
        const cell = cellOf({ zoom, x, y });
        const column = (cell.column / share - here.column) * canvas.width;
        const row = (cell.row / share - here.row) * canvas.height;
        if (column < 0 || row < 0 || column >= canvas.width || row >= canvas.height) continue;
        context.fillStyle = shadeOf(days, most);
        context.fillRect(column, row, width, height);
      }
    };
  }

  /** @param {api.Tile} tile */
  #block(tile) {
    const area = chunkOf(tile);
    const { after, until } = this.range;
    const key = `${area.zoom} ${area.xFrom} ${area.yFrom}`;
    return this.blocks.get(key, () => api.heat(this.map, this.layer, area, after, until));
  }
}

/**
 * The panel beside a heat map.
 * @param {import("./outline.js").Outline} outline @param {string} layer @param {import("./state.js").Range} range
 * @param {(range: import("./state.js").Range) => void} choose
 * @param {(tile: api.Tile) => {words: string, href: string}} locate where a tile's middle is, and a link to it
 * @returns {HTMLElement}
 */
export function heatPanel(outline, layer, range, choose, locate) {
  const field = (/** @type {"after" | "until"} */ end, /** @type {string} */ key) =>
    element("label", {}, text(key), " ", element("input", {
      type: "date", value: range[end], min: outline.firstDay, max: outline.lastDay, id: `heat-${end}`,
      onchange: (event) => {
        const day = /** @type {HTMLInputElement} */ (event.target).value;
        if (day) choose({ ...range, [end]: outline.within(day) });
      },
    }));
  const list = element("div", {}, "…");
  listPlaces(outline.name, layer, range, locate).then(
    (places) => list.replaceChildren(places),
    (error) => list.replaceChildren(text("failed", { message: error.message })),
  );
  return element("div", { class: "heat-panel" },
    element("p", { class: "range" }, field("after", "heatFrom"), field("until", "heatUntil")),
    element("p", { class: "legend" }, text("heatLegend"), " ", legend(daysBetween(outline, range))),
    element("h3", {}, text("heatPlaces")), list);
}

/** @param {import("./outline.js").Outline} outline @param {import("./state.js").Range} range */
export function daysBetween(outline, range) {
  return outline.days.filter((day) => day > range.after && day <= range.until).length;
}

/** @param {number} most */
function legend(most) {
  const marks = most <= 1 ? [1] : [...new Set(SHADES.map((_, index) => Math.ceil(most ** (index / SHADES.length))))];
  return element("span", { class: "shades" }, ...marks.map((days) => {
    const swatch = element("span", { class: "swatch" }, String(days));
    const shade = shadeOf(days, most);
    swatch.style.backgroundColor = shade;
    swatch.style.color = SHADES.indexOf(shade) < LIGHT_SHADES ? "#201a12" : "#ffffff";
    return swatch;
  }));
}

/**
 * @param {string} map @param {string} layer @param {import("./state.js").Range} range
 * @param {(tile: api.Tile) => {words: string, href: string}} locate
 */
async function listPlaces(map, layer, range, locate) {
  const found = await api.places(map, layer, range.after, range.until);
  if (found.length === 0) return element("p", {}, text("heatNothing"));
  return element("ol", { class: "places" }, ...found.map((place) => {
    const { words, href } = locate(parseTile(place.tile));
    const told = text("heatPlace", { place: words, days: place.days });
    return element("li", {}, element("a", { href }, told));
  }));
}
