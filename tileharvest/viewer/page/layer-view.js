/** One layer of a map on the screen: its pictures of one day or two, its heat, and where in it the screen is. */
import * as api from "./api.js";
import { differenceDrawing } from "./compare.js";
import { dayInWords } from "./days.js";
import { part } from "./dom.js";
import { tileAt } from "./grid.js";
import { Heat, daysBetween } from "./heat.js";
import { MapView } from "./map-view.js";
import { blockAt, gridToWorld, worldToGrid } from "./projection.js";
import { text } from "./text.js";
import { TileAddresses } from "./tile-addresses.js";

const FITTED_LEVEL = 5; // 32 x 32 tiles over the whole map: how finely its outline is looked at.
const MOST_COUNTED = 32; // Tiles along an edge: the server refuses areas of more than 1,024.

/**
 * @typedef {import("./outline.js").Outline} Outline
 * @typedef {import("./state.js").Look} Look
 * @typedef {{x: number, z: number, zoom: number}} Place in Minecraft's coordinates
 */

export class LayerView {
  /**
   * @param {Outline} outline @param {api.Layer} layer
   * @param {object} actions
   * @param {(place: Place | null) => void} actions.moved null: by the page, not by a person
   * @param {(place: {x: number, y: number} | null) => void} actions.pointed in grid units
   * @param {(tile: api.Tile) => void} actions.chosen
   */
  constructor(outline, layer, actions) {
    this.outline = outline;
    this.layer = layer;
    this.addresses = new TileAddresses(outline.name, layer.name);
    /** The day on the screen, on which the layer's size and direction depend. */
    this.day = outline.lastDay;
    this.screen = this.#open("map");
    /** @type {MapView | null} */
    this.second = null;
    /** While the page itself moves the map. */
    this.moving = false;
    this.screen.onMove((position) => {
      actions.moved(this.moving || position === null ? null : this.#placeAt(position));
    });
    this.screen.onPointer(actions.pointed);
    this.screen.onChoice(({ x, y }) => actions.chosen(tileAt(x, y, this.screen.tileZoom)));
  }

  get description() {
    return this.outline.description(this.layer.name, this.day);
  }

  /** @returns {api.Area} what is in view, or the middle of it where that is more than can be counted */
  get countable() {
    const area = this.screen.area;
    const width = 2 ** (1 - area.zoom);
    const cut = (/** @type {number} */ from, /** @type {number} */ to) => {
      const surplus = Math.max(0, (to - from) / width + 1 - MOST_COUNTED);
      const left = Math.floor(surplus / 2);
      return [from + left * width, to - (surplus - left) * width];
    };
    const [xFrom, xTo] = cut(area.xFrom, area.xTo);
    const [yFrom, yTo] = cut(area.yFrom, area.yTo);
    return { zoom: area.zoom, xFrom, xTo, yFrom, yTo };
  }

  /** Behind another page the map has no size, and nothing is in view. */
  get visible() {
    return this.screen.container.clientWidth > 0;
  }

  /** @returns {Promise<void>} resolves when all that is in view is on the screen */
  async idle() {
    await Promise.all([this.screen.idle(), this.second?.idle()]);
  }

  /** @param {Look} look nobody has chosen a place yet where x or z is null: then all that is there is shown */
  moveTo({ x, z, zoom }) {
    if (x === null || z === null) {
      this.#fit();
      return;
    }
    this.moving = true;
    this.screen.position = { ...worldToGrid({ x, z }, this.description), zoom: zoom ?? this.screen.position.zoom };
    this.moving = false;
  }

  /**
   * @param {string} day @param {Pick<Look, "mode" | "other">} look
   * @param {{share: number, opacity: number}} tools the border of a swipe and the blend of an onion skin
   */
  showDays(day, { mode, other }, tools) {
    this.day = day;
    const { screen } = this;
    const now = this.#pictures(day);
    const before = mode === "one" || other === null ? null : this.#pictures(other);
    // As the map's own page would show behind its tiles.
    part("map-page").style.setProperty("--behind", this.description.background ?? "");
    screen.show("pictures", mode === "difference" ? null : mode === "side" && before ? before : now);
    screen.show("other", mode === "swipe" || mode === "onion" ? before : null);
    screen.draw("drawing", mode === "difference" && before ? differenceDrawing(before, now) : null);
    this.arrange(mode, tools);
    this.#showSecond(mode === "side", now);
    screen.container.setAttribute("aria-label", text("mapLabel", { day: dayInWords(day, "long") }));
    this.#showSpawn();
  }

  /** @param {import("./state.js").Mode} mode @param {{share: number, opacity: number}} tools */
  arrange(mode, tools) {
    this.screen.swipe = mode === "swipe" ? tools.share : null;
    this.screen.blend = mode === "onion" ? tools.opacity : 1;
  }

  /** @param {import("./state.js").Range | null} range */
  showHeat(range) {
    if (range === null) {
      this.screen.draw("heat", null);
      return;
    }
    const heat = new Heat(this.outline.name, this.layer.name, range);
    this.screen.draw("heat", heat.drawing(daysBetween(this.outline, range)));
  }

  /** The block at a point of the screen, or in its middle. @param {{x: number, y: number} | null} point */
  blockAt(point) {
    return blockAt(point ?? this.screen.position, this.description);
  }

  remove() {
    this.screen.remove();
    this.second?.remove();
  }

  /** @param {string} day @returns {import("./map-view.js").Pictures} */
  #pictures(day) {
    return (tile) => this.addresses.address(tile, day);
  }

  /** @param {import("./map-view.js").Position} position @returns {Place} */
  #placeAt(position) {
    const { x, z } = gridToWorld(position, this.description);
    const tenth = (/** @type {number} */ value) => Math.round(value * 10) / 10;
    return { x: tenth(x), z: tenth(z), zoom: position.zoom };
  }

  /** @param {string} id of the container, of which Leaflet wants one that no other map was in */
  #open(id) {
    const old = part(id);
    const container = old.cloneNode(false);
    container.removeAttribute("style");
    container.className = "map";
    container.tabIndex = 0;
    old.replaceWith(container);
    return new MapView(container, {
      tileSize: this.description.tile_size,
      depth: this.outline.depth(this.layer.name),
      zoomIn: text("zoomIn"),
      zoomOut: text("zoomOut"),
    });
  }

  async #fit() {
    const { screen, outline, layer } = this;
    this.moving = true;
    screen.fit([]);
    this.moving = false;
    const zoom = Math.min(0, FITTED_LEVEL - screen.depth);
    const last = 2 ** screen.depth - 2 ** -zoom;
    const area = { zoom, xFrom: -last, xTo: last, yFrom: -last, yTo: last };
    const there = await api.view(outline.name, layer.name, outline.lastDay, area).catch(() => new Map());
    if (!screen.container.isConnected) return;
    const tiles = [...there]
      .filter(([, address]) => address !== null)
      .map(([place]) => place.split("_").map(Number))
      .map(([x, y]) => ({ zoom, x, y }));
    screen.fit(tiles);
  }

  /** @param {boolean} shown @param {import("./map-view.js").Pictures} pictures */
  #showSecond(shown, pictures) {
    part("stage").classList.toggle("halves", shown);
    if (!shown) {
      part("second-map").hidden = true;
      this.second?.remove();
      this.second = null;
      return;
    }
    if (this.second === null) {
      part("second-map").hidden = false;
      this.second = this.#open("second-map");
      this.second.position = this.screen.position;
      this.screen.accompany(this.second);
    }
    this.second.container.setAttribute("aria-label", text("mapLabel", { day: dayInWords(this.day, "long") }));
    this.second.show("pictures", pictures);
  }

  #showSpawn() {
    const { spawn } = this.description;
    if (spawn === null) {
      this.screen.pin(null);
      return;
    }
    const [x, y, z] = spawn;
    this.screen.pin({ ...worldToGrid({ x, y, z }, this.description), label: text("spawn") });
  }
}
