"use strict";
// Pages opened from disk may not fetch files, but they may run scripts: data files call `SRL.receive`.
(() => {
  const wanted = new Map();

  SRL.receive = (name, value) => wanted.get(name)?.settle(value);

  SRL.load = (name) => {
    if (!wanted.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => {
        entry.settle = resolve;
        const script = SRL.el("script", { src: `${name}.js`, onerror: () => {
          wanted.delete(name);
          reject(new Error(`${name}.js is missing from this site.`));
        } });
        document.head.append(script);
      });
      wanted.set(name, entry);
    }
    return wanted.get(name).promise;
  };

  // The plotting library, which only some pages need.
  let plotting = null;
  SRL.plotting = () => plotting ??= new Promise((resolve, reject) => {
    document.head.append(SRL.el("link", { rel: "stylesheet", href: "assets/uPlot.min.css" }),
      SRL.el("script", { src: "assets/uPlot.iife.min.js", onload: resolve, onerror: () => reject(new Error("assets/uPlot.iife.min.js is missing from this site.")) }));
  });
})();
