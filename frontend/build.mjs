// Bundles the pages into the Python package (which is committed), or, with --test, the tests into .test/.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const testing = process.argv.includes("--test");
const common = { bundle: true, target: "es2022", logLevel: "warning", charset: "utf8", legalComments: "inline" };

if (testing) {
  const tests = readdirSync("test")
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `test/${name}`);
  await build({
    ...common,
    entryPoints: tests,
    outdir: ".test",
    format: "esm",
    platform: "node",
    packages: "external",
  });
} else {
  await build({
    ...common,
    entryPoints: ["report", "studio", "calibrate", "live"].flatMap((page) => [`src/${page}.ts`, `src/${page}.css`]),
    outdir: "../src/simile/_common/pages/built",
    format: "iife",
    minify: true,
    banner: { js: "/*! With uPlot 1.6.32, (c) Leon Sorokin, MIT license. Sources: frontend/ */" },
  });
}
