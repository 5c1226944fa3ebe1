"""Compare onnxexp with torch.onnx: `python -m benchmarks --help`.

    models, basic, pretrained       the models: architectures at their published sizes, random weights
    case                            the definition of a benchmark model
    exporters                       the compared tools: onnxexp twice, torch.onnx.export twice, torch.export alone
    export_worker, latency_worker   one measurement in its own process
    bridge                          what the torch bridge adds to a call
    checking                        what find_mismatch and a report cost
    quantized, quantized_models     quantized models: onnxexp's float file, its quantized file, torch.onnx's quantized file
    quantized_worker                one of them, in its own process
    large, large_models             models of 1 and 7 billion parameters: memory and time of their export
    large_worker                    one of them, in its own process
    running                         the parent process, which runs the workers one after the other
    results                         the measurements, as JSON
    targets, tables                 ratios, verdicts, and their presentation
    platform_cost                   the cost of plugins: hooks over many nodes, the command with many packs
    against                         two revisions of onnxexp in one run
    many_packs                      what 300 installed packs that are off cost
    diff                            operators of one model, tool by tool

Method:
    * Every export runs in a fresh process that has imported everything and exported one tiny model, so that imports and
      registries do not count. Its first export measures the memory; the median of the later ones is the time.
    * Exports of less than 0.1 s are timed in several processes, in turns. The state of a process's allocator changes such a time
      by up to 25 %.
    * Output files are removed before each export: replacing a file safely costs onnxexp a wait for the disk.
    * Memory is the growth of the process's peak resident set over its size right before the export. "Over capture" subtracts the
      growth of a process that only calls torch.export.export.
    * Time over capture is onnxexp's median minus that of torch.export.export, called alternately in the same process.
    * Latency is processor time of one thread (wall time with more threads). All files of a model run in one process, in rounds
      of changing order, in several such processes, since the layout of a process's memory changes a latency by up to 3 %. The
      ratio is the median over the processes of the ratio of their medians; the other processes decide which peer is the better.
    * Large models are exported once, then torch.export.export runs alone. Copies of the weights are timed before and after. The
      checkpoint is dropped from the system's cache before the export and each copy. The file's weights are compared by samples.
    * A file counts only if ONNX Runtime agrees with eager PyTorch, at the example's sizes and at others.
"""
