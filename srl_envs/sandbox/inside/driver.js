// Driver of JavaScript programs: reads one task from descriptor 5 and writes one frame per call to
// descriptor 3, in the form of codec.py. What it says is a claim by the program, no more.
//
// A returned value is read once, into plain data, with functions that were taken before the program
// began: neither `toJSON`, `valueOf` and iterators of its own nor changed prototypes are asked.
"use strict";
(() => {
  const fs = require("fs");
  const vm = require("vm");
  const { builtinModules, syncBuiltinESMExports } = require("module");
  const { types } = require("util");
  const TASK = 5, RESULT = 3, MAX_DEPTH = 100, MESSAGE_CHARS = 300, FILE = "solution.js";

  const original = (method) => Function.prototype.call.bind(method);
  const { isArray } = Array;
  const { keys: keysOf, hasOwn } = Object;
  const { isNaN, isFinite, isSafeInteger, isInteger } = Number;
  const asText = String, quoted = JSON.stringify, apply = Reflect.apply;
  const ascii = Buffer.from.bind(Buffer);
  const { readFileSync, writeSync, fstatSync, closeSync } = fs;
  const exit = process.exit.bind(process), leave = process.reallyExit.bind(process);
  const codeAt = original(String.prototype.charCodeAt), part = original(String.prototype.slice);
  const holds = original(String.prototype.includes), find = original(RegExp.prototype.exec);
  const hexOf = original(BigInt.prototype.toString);
  const eachOfSet = original(Set.prototype.forEach), eachOfMap = original(Map.prototype.forEach);
  const unboxed = [
    [types.isNumberObject, original(Number.prototype.valueOf)],
    [types.isStringObject, original(String.prototype.valueOf)],
    [types.isBooleanObject, original(Boolean.prototype.valueOf)],
    [types.isBigIntObject, original(BigInt.prototype.valueOf)],
    [types.isDate, original(Date.prototype.toISOString)],
  ];
  const { isSet, isMap, isUint8Array, isTypedArray } = types;

  const solution = { exports: {} };  // node takes its own `module` back after the first turn
  let modular = null;  // namespace of a program that is a module

  function decode(tree) {
    if (Array.isArray(tree)) return tree.map(decode);
    if (tree === null || typeof tree !== "object") return tree;
    const [[tag, body]] = Object.entries(tree);
    switch (tag) {
      case "tuple": return body.map(decode);
      case "set":
      case "frozenset": return new Set(body.map(decode));
      case "int": return body.startsWith("-") ? -BigInt(body.slice(1)) : BigInt(body);
      case "float": return { nan: NaN, inf: Infinity, "-inf": -Infinity }[body];
      case "bytes":
      case "bytearray": return Uint8Array.from(Buffer.from(body, "hex"));
      case "dict": return decodeDict(body.map(([key, value]) => [decode(key), decode(value)]));
      default: throw new TypeError(`an argument of kind ${tag} has no form in JavaScript`);
    }
  }

  function decodeDict(pairs) {
    if (!pairs.every(([key]) => typeof key === "string")) return new Map(pairs);
    const object = {};
    for (const [key, value] of pairs) {
      Object.defineProperty(object, key, {
        value, enumerable: true, configurable: true, writable: true,
      });
    }
    return object;
  }

  function encode(value, depth) {
    if (depth > MAX_DEPTH) throw new RangeError(`nested deeper than ${MAX_DEPTH} levels`);
    if (value === null || value === undefined) return "null";
    switch (typeof value) {
      case "boolean": return value ? "true" : "false";
      case "number": return encodeNumber(value);
      case "bigint": return `{"int":"${value < 0n ? "-" : ""}0x${hexOf(value < 0n ? -value : value, 16)}"}`;
      case "string": return encodeText(value);
      case "function":
      case "symbol": throw new TypeError(`a ${typeof value} is no JSON value`);
    }
    for (let i = 0; i < unboxed.length; i++) {
      if (unboxed[i][0](value)) return encode(unboxed[i][1](value), depth + 1);
    }
    return encodeObject(value, depth + 1);
  }

  function encodeObject(value, depth) {
    if (isUint8Array(value)) return `{"bytes":"${hexadecimal(value)}"}`;
    if (isArray(value) || isTypedArray(value)) {
      let items = "";
      for (let i = 0, length = value.length; i < length; i++) {
        items += (i ? "," : "") + encode(value[i], depth);
      }
      return `[${items}]`;
    }
    let items = "";
    const add = (text) => { items += (items ? "," : "") + text; };
    if (isSet(value)) {
      eachOfSet(value, (item) => add(encode(item, depth)));
      return `{"set":[${items}]}`;
    }
    if (isMap(value)) {
      eachOfMap(value, (item, key) => add(`[${encode(key, depth)},${encode(item, depth)}]`));
      return `{"dict":[${items}]}`;
    }
    if (typeof value.next === "function") {
      for (let step = value.next(); !step.done; step = value.next()) add(encode(step.value, depth));
      return `[${items}]`;
    }
    const keys = keysOf(value);
    for (let i = 0; i < keys.length; i++) add(`[${encodeText(keys[i])},${encode(value[keys[i]], depth)}]`);
    return `{"dict":[${items}]}`;
  }

  function encodeNumber(value) {
    if (isNaN(value)) return '{"float":"nan"}';
    if (!isFinite(value)) return `{"float":"${value < 0 ? "-" : ""}inf"}`;
    if (value === 0 && 1 / value < 0) return "-0.0";
    const text = asText(value);
    if (isSafeInteger(value)) return text;
    return isInteger(value) && !holds(text, "e") ? text + ".0" : text;
  }

  function encodeText(text) {
    const json = quoted(text);
    let ascii = "", from = 0;
    for (let i = 0; i < json.length; i++) {
      const unit = codeAt(json, i);
      if (unit < 0x7f) continue;
      ascii += part(json, from, i) + "\\u" + hex(unit >> 8) + hex(unit & 0xff);
      from = i + 1;
    }
    return from ? ascii + part(json, from) : json;
  }

  function hexadecimal(bytes) {
    let text = "";
    for (let i = 0, length = bytes.length; i < length; i++) text += hex(bytes[i]);
    return text;
  }

  function hex(byte) {
    return "0123456789abcdef"[byte >> 4] + "0123456789abcdef"[byte & 15];
  }

  function failure(error) {
    let name = "Error", text = "";
    try {
      name = asText(error && error.name || typeof error);
      text = asText(error && error.message !== undefined ? error.message : error);
    } catch { /* a hostile toString */ }
    const memory = find(/allocation failed|Invalid (array|string) length|out of memory/i, text);
    const message = memory ? "MemoryError" : part(text ? `${name}: ${text}` : name, 0, MESSAGE_CHARS);
    return `{"dict":[["status","${memory ? "memory" : "exception"}"],["message",${encodeText(message)}]]}`;
  }

  function report(frame) {
    const data = ascii(frame + "\n", "ascii");
    try {
      for (let at = 0; at < data.length;) at += writeSync(RESULT, data, at);
    } catch { /* full: the trusted side sees that by its size */ }
  }

  // `/dev/stdin` leads through /proc, which is not there: these names open the descriptor itself.
  function leadToDescriptors() {
    const streams = {};
    ["stdin", "stdout", "stderr"].forEach((name, descriptor) => {
      for (const path of [`/dev/${name}`, `/dev/fd/${descriptor}`, `/proc/self/fd/${descriptor}`]) {
        streams[path] = descriptor;
      }
    });
    const named = (path) => typeof path === "string" && hasOwn(streams, path) ? streams[path] : path;
    const byNumber = (owner, names) => {
      for (const name of names) {
        const before = owner[name];
        owner[name] = function (path, ...rest) { return before.call(this, named(path), ...rest); };
      }
    };
    byNumber(fs, ["readFileSync", "readFile", "writeFileSync", "writeFile", "appendFileSync", "appendFile"]);
    const { openSync, open, existsSync, statSync, createReadStream, createWriteStream } = fs;
    const { readFile: readLater } = fs.promises;
    fs.openSync = (path, ...rest) => named(path) === path ? openSync(path, ...rest) : named(path);
    fs.open = (path, ...rest) => named(path) === path
      ? open(path, ...rest) : process.nextTick(rest[rest.length - 1], null, named(path));
    fs.existsSync = (path) => named(path) !== path || existsSync(path);
    fs.statSync = (path, ...rest) => named(path) === path ? statSync(path, ...rest) : fstatSync(named(path), ...rest);
    fs.promises.readFile = async (path, ...rest) => named(path) === path
      ? readLater(path, ...rest) : readFileSync(named(path), ...rest);
    const stream = (make) => (path, options) => {
      if (named(path) === path) return make(path, options);
      const given = typeof options === "string" ? { encoding: options } : options;
      return make(null, { ...given, fd: named(path), autoClose: false });
    };
    fs.createReadStream = stream(createReadStream);
    fs.createWriteStream = stream(createWriteStream);
    syncBuiltinESMExports();  // `import { readFileSync } from "fs"`
  }

  function takeNames() {
    globalThis.require = require;
    globalThis.module = solution;
    globalThis.exports = solution.exports;
  }

  async function define(program) {
    takeNames();
    let script;
    try {
      script = new vm.Script(program, { filename: FILE, importModuleDynamically: imported });
    } catch (error) {
      await defineModule(program, error);
      return;
    }
    script.runInThisContext();
  }

  // A program that is no script: with `import`, `export` or an `await` outside of functions.
  async function defineModule(program, notScript) {
    let module;
    try {
      module = new vm.SourceTextModule(`${program}\n;export const $find = (name) => eval(name);`, {
        identifier: FILE,
        importModuleDynamically: imported,
        initializeImportMeta: (meta) => { meta.url = `file:///${FILE}`; },
      });
    } catch (error) {
      throw find(/(^|[;\n])\s*(import|export)\b/, program) ? error : notScript;
    }
    await module.link(imported);
    takeNames();
    modular = module.namespace;
    await module.evaluate();
  }

  async function imported(name) {
    if (!builtinModules.includes(name.replace(/^node:/, ""))) {
      throw new Error(`cannot import '${name}': only modules of node are here`);
    }
    const found = require(name);
    const names = Object.keys(found).filter((key) => key !== "default");
    const module = new vm.SyntheticModule(["default", ...names], () => {
      module.setExport("default", found);
      for (const key of names) module.setExport(key, found[key]);
    }, { identifier: name });
    await module.link(() => {});
    await module.evaluate();
    return module;
  }

  function lookUp(name) {
    for (const exported of [modular, modular && modular.default, solution.exports]) {
      if (typeof exported === "function" && exported.name === name) return exported;
      const holder = exported && (typeof exported === "object" || typeof exported === "function");
      if (holder && hasOwn(exported, name)) return exported[name];
    }
    try {
      return modular ? modular.$find(name) : vm.runInThisContext(name);
    } catch {
      const error = new Error(`the program defines no '${name}'`);
      error.name = "NameError";
      throw error;
    }
  }

  async function claim(call) {
    if (call.named) throw new TypeError("JavaScript has no keyword arguments");
    const found = lookUp(call.name);
    const owner = call.method === undefined ? undefined : new found();
    const value = apply(owner === undefined ? found : owner[call.method], owner, call.args);
    const encoded = encode(await value, 0);
    return `{"dict":[["status","ok"],["end",${fstatSync(1).size}],["value",${encoded}]]}`;
  }

  async function callAll(task) {
    const calls = task.calls.map(({ function: path, args, kwargs }) => {
      const [name, method] = path.split(".");
      return { name, method, args, named: keysOf(kwargs).length > 0 };
    });
    try {
      await define(task.program);
    } catch (error) {
      report(failure(error));
      exit(1);
    }
    for (let i = 0; i < calls.length; i++) {
      try {
        report(await claim(calls[i]));
      } catch (error) {
        report(failure(error));
      }
    }
    leave(0);
  }

  function runScript(program) {
    const end = (error) => {
      report(failure(error));
      exit(1);
    };
    process.on("uncaughtException", end);
    define(program).catch(end);
  }

  const task = decode(JSON.parse(readFileSync(TASK, "ascii")));
  closeSync(TASK);
  leadToDescriptors();
  if (task.mode === "call") {
    callAll(task);
  } else {
    runScript(task.program);
  }
})();
