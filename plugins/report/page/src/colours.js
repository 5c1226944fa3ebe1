// Colours of the canvas, from the page's style; those of operators go by family, those of errors by magnitude.

const FAMILIES = [
  [/^(MatMul|Gemm|Conv|ConvTranspose|Attention|Einsum|linear|matmul|mm|bmm|addmm|conv\d?d?|convolution|scaled_dot_product_attention|QLinear.*|.*MatMul.*)/, "--op-product"],
  [/^(Relu|Gelu|Sigmoid|Tanh|Softmax|LogSoftmax|Elu|HardSwish|Silu|Erf|relu|gelu|sigmoid|tanh|softmax|silu|hardswish|Clip|.*Relu)/i, "--op-activation"],
  [/(Norm|norm)/, "--op-norm"],
  [/^(Reshape|Transpose|Unsqueeze|Squeeze|Concat|Split|Slice|Gather|Expand|Flatten|Shape|Identity|Pad|Tile|view|reshape|transpose|permute|unsqueeze|squeeze|cat|slice|select|expand|flatten|sym_size|embedding|chunk|t$)/, "--op-shape"],
  [/(Pool|pool|Reduce|Mean|mean|sum|Resize|upsample)/, "--op-reduce"],
  [/^(If|Loop|Scan|prim::)/, "--op-flow"],
];

let style = null;

/** Read the colours again, after a change of the theme. */
export function readColours() {
  style = getComputedStyle(document.documentElement);
}

export function colour(name) {
  if (!style) readColours();
  return style.getPropertyValue(name).trim();
}

export function operatorColour(label) {
  const family = FAMILIES.find(([pattern]) => pattern.test(label));
  return colour(family ? family[1] : "--op-other");
}

/** The colour of an error: grey where there is none, then from green to amber; faults are red. */
export function errorColour(fault, total, known) {
  if (fault) return colour("--fault");
  if (!known) return colour("--op-other");
  if (total === 0) return colour("--error-none");
  const level = Math.min(3, Math.max(0, Math.floor((Math.log10(total) + 8) / 2)));
  return colour(`--error-${level}`);
}

export const ERROR_LEGEND = [
  ["--error-none", "equal"], ["--error-0", "< 1e-6"], ["--error-1", "< 1e-4"], ["--error-2", "< 1e-2"], ["--error-3", "larger"],
  ["--fault", "at fault by itself"],
];
