/** The lists of a published page, which come as scripts: a page that was opened by a double click may load no other data. */
(() => {
  const loaded = new Map();
  /** @type {Map<string, Promise<any>>} */
  const coming = new Map();
  globalThis.published = (name, value) => loaded.set(name, value);
  /** @param {string} name @returns {boolean} whether it is loaded */
  globalThis.hasList = (name) => loaded.has(name);
  /** @param {string} name @returns {Promise<any>} what the list of that name has; fails where it cannot be loaded */
  globalThis.listNamed = (name) => {
    if (loaded.has(name)) return Promise.resolve(loaded.get(name));
    if (!coming.has(name)) coming.set(name, load(name).finally(() => coming.delete(name)));
    return coming.get(name);
  };
  /** @param {string} name @returns {Promise<any>} */
  const load = (name) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `lists/${name.slice(0, 2)}/${name}.js`;
    script.onload = () => {
      script.remove();
      if (loaded.has(name)) resolve(loaded.get(name));
      else reject(new Error(script.src));
    };
    script.onerror = () => {
      script.remove();
      reject(new Error(script.src));
    };
    document.head.append(script);
  });
})();
