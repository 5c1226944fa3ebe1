// Bundle the page's script and style, and collect the licences of the packages in it.
import { build } from "esbuild";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const assets = "../onnxexp_report/assets";
mkdirSync(assets, { recursive: true });
const { metafile } = await build({
  entryPoints: { page: "src/main.js" },
  outdir: assets,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});

const folders = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/);
  if (found) folders.add(found[1]);
}
const texts = [...folders].sort().map((name) => {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}`;
});
writeFileSync(join(assets, "THIRD-PARTY-LICENSES.txt"), texts.join(`\n\n${"-".repeat(80)}\n\n`) + "\n");
