"""onnxexp side by side with torch.onnx: `python -m benchmarks --help`.

    models, basic, pretrained       what is exported: architectures at their published sizes, random weights
    case                            what a benchmark model is
    exporters                       the tools that are compared: onnxexp twice, torch.onnx.export twice, torch.export alone
    export_worker, latency_worker   one measurement in a process of its own
    running                         the parent: starts the workers, one after the other
    results                         what was measured, as JSON
    targets, tables                 ratios, verdicts, and how they are shown
    platform_cost                   what plugins cost: hooks over many nodes, the command with many packs
    diff                            operators of one model, tool by tool

How things are measured:
    * Every export runs in a fresh process, which has imported everything and exported one tiny model before, so that neither
      imports nor registries count. Its first export gives the memory; the ones after it the time, of which the median counts.
    * Exports of less than a tenth of a second are timed in several processes, the tools in turn: a process's luck with its memory
      (whether what the model's own run frees goes back to the system) is worth up to a quarter of such a time.
    * No tool replaces a file: it is removed before each export. (onnxexp waits for the disk when it replaces one, to be safe.)
    * Memory is the growth of the process's peak resident set over its size right before the export. "Over capture" takes off
      what a process grows by that only calls torch.export.export.
    * Time over capture is onnxexp's median minus that of torch.export.export, called alternately in the same process.
    * Latency is processor time of one thread (wall time with more threads): all files of a model in one process, one after the
      other in each round, the order changing; several such processes. The ratio is the median over the processes of the ratio of
      their medians.
    * A file counts only if ONNX Runtime gives what eager PyTorch gives, at the example's sizes and at other ones.
"""
