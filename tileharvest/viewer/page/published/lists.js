/** The lists of a published page, which come as scripts: a page that was opened by a double click may load no other data. */
(() => {
  /** @type {Map<string, string>} the lists that have come, still packed */
  const came = new Map();
  /** @type {Map<string, Promise<any>>} */
  const lists = new Map();
  globalThis.published = (name, packed) => came.set(name, packed);
  /** @param {string} name @returns {boolean} whether it is loaded */
  globalThis.hasList = (name) => came.has(name);
  /** @param {string} name @returns {Promise<any>} what the list of that name has; fails where it cannot be loaded */
  globalThis.listNamed = (name) => {
    let list = lists.get(name);
    if (list === undefined) {
      list = load(name).then(unpacked);
      list.catch(() => lists.delete(name));
      lists.set(name, list);
    }
    return list;
  };
  /** @param {string} packed JSON, by gzip, in base 64 @returns {Promise<any>} */
  const unpacked = (packed) => {
    const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };
  /** @param {string} name @returns {Promise<string>} */
  const load = (name) => new Promise((resolve, reject) => {
    const given = () => resolve(/** @type {string} */ (came.get(name)));
    if (came.has(name)) return void given();
    const script = document.createElement("script");
    script.src = `lists/${name.slice(0, 2)}/${name}.js`;
    script.onload = () => {
      script.remove();
      if (came.has(name)) given();
      else reject(new Error(script.src));
    };
    script.onerror = () => {
      script.remove();
      reject(new Error(script.src));
    };
    document.head.append(script);
  });
})();
