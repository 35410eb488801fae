// Driver of JavaScript programs: reads one task from descriptor 5 and writes one frame per call to
// descriptor 3, in the form of codec.py. What it says is a claim by the program, no more.
"use strict";
(() => {
  const fs = require("fs");
  const vm = require("vm");
  const TASK = 5, RESULT = 3, MAX_DEPTH = 100, MESSAGE_CHARS = 300, FILE = "solution.js";

  const solution = { exports: {} };  // node takes its own `module` back after the first turn

  function decode(tree) {
    if (Array.isArray(tree)) return tree.map(decode);
    if (tree === null || typeof tree !== "object") return tree;
    const [[tag, body]] = Object.entries(tree);
    switch (tag) {
      case "tuple": return body.map(decode);
      case "set": return new Set(body.map(decode));
      case "int": return body.startsWith("-") ? -BigInt(body.slice(1)) : BigInt(body);
      case "float": return { nan: NaN, inf: Infinity, "-inf": -Infinity }[body];
      case "bytes": return Uint8Array.from(Buffer.from(body, "hex"));
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
    const list = (items) => "[" + Array.from(items, (item) => encode(item, depth + 1)).join(",") + "]";
    const pair = ([key, item]) => `[${encode(key, depth + 1)},${encode(item, depth + 1)}]`;
    if (value === null || value === undefined) return "null";
    switch (typeof value) {
      case "boolean": return String(value);
      case "number": return encodeNumber(value);
      case "bigint": return `{"int":"${value < 0n ? "-" : ""}0x${(value < 0n ? -value : value).toString(16)}"}`;
      case "string": return encodeText(value);
      case "function":
      case "symbol": throw new TypeError(`a ${typeof value} is no JSON value`);
    }
    if (value instanceof Uint8Array) return `{"bytes":"${Buffer.from(value).toString("hex")}"}`;
    if (Array.isArray(value) || ArrayBuffer.isView(value)) return list(value);
    if (value instanceof Set) return `{"set":${list(value)}}`;
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return encode(value.valueOf(), depth + 1);
    }
    if (typeof value.next === "function") return list(value);
    const pairs = value instanceof Map ? value.entries() : Object.entries(value);
    return `{"dict":[${Array.from(pairs, pair).join(",")}]}`;
  }

  function encodeNumber(value) {
    if (Number.isNaN(value)) return '{"float":"nan"}';
    if (!Number.isFinite(value)) return `{"float":"${value < 0 ? "-" : ""}inf"}`;
    if (Object.is(value, -0)) return "-0.0";
    if (Number.isSafeInteger(value)) return String(value);
    const text = String(value);
    return Number.isInteger(value) && !text.includes("e") ? text + ".0" : text;
  }

  function encodeText(text) {
    return JSON.stringify(text).replace(
      /[\u007f-\uffff]/g, (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
  }

  function failure(error) {
    let name = "Error", text = "";
    try {
      name = String(error && error.name || typeof error);
      text = String(error && error.message !== undefined ? error.message : error);
    } catch { /* a hostile toString */ }
    const memory = /allocation failed|Invalid (array|string) length|out of memory/i.test(text);
    const message = memory ? "MemoryError" : (text ? `${name}: ${text}` : name).slice(0, MESSAGE_CHARS);
    return `{"dict":[["status","${memory ? "memory" : "exception"}"],["message",${encodeText(message)}]]}`;
  }

  function report(frame) {
    let data = Buffer.from(frame + "\n", "ascii");
    try {
      while (data.length) data = data.subarray(fs.writeSync(RESULT, data));
    } catch { /* full: the trusted side sees that by its size */ }
  }

  function define(program) {
    globalThis.require = require;
    globalThis.module = solution;
    globalThis.exports = solution.exports;
    vm.runInThisContext(program, { filename: FILE });
  }

  function lookUp(name) {
    const exported = solution.exports;
    if (exported !== null && (typeof exported === "object" || typeof exported === "function")) {
      if (Object.prototype.hasOwnProperty.call(exported, name)) return exported[name];
    }
    try {
      return vm.runInThisContext(name);
    } catch {
      const error = new Error(`the program defines no '${name}'`);
      error.name = "NameError";
      throw error;
    }
  }

  async function claim(call) {
    if (Object.keys(call.kwargs).length) throw new TypeError("JavaScript has no keyword arguments");
    const [name, method] = call.function.split(".");
    const found = lookUp(name);
    const value = method === undefined ? found(...call.args) : new found()[method](...call.args);
    const encoded = encode(await value, 0);
    return `{"dict":[["status","ok"],["end",${fs.fstatSync(1).size}],["value",${encoded}]]}`;
  }

  async function callAll(task) {
    try {
      define(task.program);
    } catch (error) {
      report(failure(error));
      process.exit(1);
    }
    for (const call of task.calls) {
      try {
        report(await claim(call));
      } catch (error) {
        report(failure(error));
      }
    }
    process.reallyExit(0);
  }

  const task = decode(JSON.parse(fs.readFileSync(TASK, "ascii")));
  fs.closeSync(TASK);
  if (task.mode === "call") {
    callAll(task);
  } else {
    process.on("uncaughtException", (error) => {
      report(failure(error));
      process.exit(1);
    });
    define(task.program);
  }
})();
