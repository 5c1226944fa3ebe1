// ONNX Runtime custom operators that call torch's dispatcher.
//
// Python declares the operators of a model as text (`onnxexp_bridge_declare`), then registers this library with the options of a
// session. The tensors that ONNX Runtime passes are not copied; results are copied into its outputs.
//
// No header of ONNX Runtime is needed. Its C API is a table of functions to which entries are only ever appended; the places of
// those in use are below, and `check_layout` compares a round trip through four of them before anything else is called.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr uint32_t kApiVersion = 20;  // of the structures below: ONNX Runtime 1.20 and later know them

using Status = void*;
using Function = void (*)();

enum Slot {
  kCreateStatus = 0,
  kGetErrorCode = 1,
  kGetErrorMessage = 2,
  kCreateCustomOpDomain = 26,
  kCustomOpDomainAdd = 27,
  kAddCustomOpDomain = 28,
  kGetTensorMutableData = 51,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kContextGetInput = 90,
  kContextGetOutput = 91,
  kReleaseStatus = 93,
  kReleaseTensorTypeAndShapeInfo = 99,
};

struct ApiBase {
  const Function* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

const Function* api = nullptr;

template <typename Signature>
Signature* slot(Slot place) {
  return reinterpret_cast<Signature*>(api[place]);
}

Status status(const std::string& message) {
  return slot<Status(int, const char*)>(kCreateStatus)(1, message.c_str());
}

void check(Status failed) {
  if (failed == nullptr) return;
  std::string message = slot<const char*(Status)>(kGetErrorMessage)(failed);
  slot<void(Status)>(kReleaseStatus)(failed);
  throw std::runtime_error(message);
}

// ONNX element types by number, and torch's; -1 for those that torch lacks.
int torch_type(int onnx_type) {
  switch (onnx_type) {
    case 1: return static_cast<int>(at::kFloat);
    case 2: return static_cast<int>(at::kByte);
    case 3: return static_cast<int>(at::kChar);
    case 4: return static_cast<int>(at::kUInt16);
    case 5: return static_cast<int>(at::kShort);
    case 6: return static_cast<int>(at::kInt);
    case 7: return static_cast<int>(at::kLong);
    case 9: return static_cast<int>(at::kBool);
    case 10: return static_cast<int>(at::kHalf);
    case 11: return static_cast<int>(at::kDouble);
    case 12: return static_cast<int>(at::kUInt32);
    case 13: return static_cast<int>(at::kUInt64);
    case 16: return static_cast<int>(at::kBFloat16);
    case 17: return static_cast<int>(at::kFloat8_e4m3fn);
    case 18: return static_cast<int>(at::kFloat8_e4m3fnuz);
    case 19: return static_cast<int>(at::kFloat8_e5m2);
    case 20: return static_cast<int>(at::kFloat8_e5m2fnuz);
    default: return -1;
  }
}

// One argument of the torch operator: a constant, or what it makes of its inputs.
struct Argument {
  std::string kind;     // "tensor", "complex", "tensors", "optionals", "integer(s)", "float(s)", "boolean", or "constant"
  std::string pattern;  // of a list: 1 for each element that is an input, 0 for each that is None
  c10::IValue constant;
};

struct Operator;

struct OrtCustomOp {
  uint32_t version;
  void* (*create_kernel)(const OrtCustomOp*, const void*, const void*);
  const char* (*get_name)(const OrtCustomOp*);
  const char* (*get_provider)(const OrtCustomOp*);
  int (*get_input_type)(const OrtCustomOp*, size_t);
  size_t (*get_input_count)(const OrtCustomOp*);
  int (*get_output_type)(const OrtCustomOp*, size_t);
  size_t (*get_output_count)(const OrtCustomOp*);
  void (*compute)(void*, void*);
  void (*destroy)(void*);
  int (*get_input_characteristic)(const OrtCustomOp*, size_t);
  int (*get_output_characteristic)(const OrtCustomOp*, size_t);
  int (*get_input_memory)(const OrtCustomOp*, size_t);
  int (*get_variadic_input_minimum)(const OrtCustomOp*);
  int (*get_variadic_input_homogeneous)(const OrtCustomOp*);
  int (*get_variadic_output_minimum)(const OrtCustomOp*);
  int (*get_variadic_output_homogeneous)(const OrtCustomOp*);
  Status (*create_kernel_v2)(const OrtCustomOp*, const void*, const void*, void**);
  Status (*compute_v2)(void*, void*);
  Status (*infer_shapes)(const OrtCustomOp*, void*);
  int (*get_start_version)(const OrtCustomOp*);
  int (*get_end_version)(const OrtCustomOp*);
  size_t (*get_may_inplace)(int**, int**);
  void (*release_may_inplace)(int*, int*);
  size_t (*get_alias_map)(int**, int**);
  void (*release_alias_map)(int*, int*);
};
static_assert(sizeof(OrtCustomOp) == 26 * sizeof(void*), "OrtCustomOp of ONNX Runtime 1.18 and later");

struct Operator : OrtCustomOp {
  std::string name;
  std::string torch_name;
  c10::OperatorHandle handle;
  std::vector<int> input_types;
  std::vector<int> output_types;
  std::vector<Argument> arguments;

  explicit Operator(c10::OperatorHandle found) : OrtCustomOp(), handle(found) {}
};

const Operator& self(const OrtCustomOp* op) { return *static_cast<const Operator*>(op); }

// Results and inputs

at::Tensor input_tensor(void* context, size_t index, int element_type) {
  const void* value = nullptr;
  check(slot<Status(const void*, size_t, const void**)>(kContextGetInput)(context, index, &value));
  void* info = nullptr;
  check(slot<Status(const void*, void**)>(kGetTensorTypeAndShape)(value, &info));
  auto release = slot<void(void*)>(kReleaseTensorTypeAndShapeInfo);
  std::unique_ptr<void, void (*)(void*)> owner(info, release);
  int given = 0;
  size_t rank = 0;
  check(slot<Status(const void*, int*)>(kGetTensorElementType)(info, &given));
  if (given != element_type) {
    throw std::runtime_error("input " + std::to_string(index) + " has the ONNX element type " + std::to_string(given) +
                             ", and the model declares " + std::to_string(element_type));
  }
  check(slot<Status(const void*, size_t*)>(kGetDimensionsCount)(info, &rank));
  std::vector<int64_t> sizes(rank);
  check(slot<Status(const void*, int64_t*, size_t)>(kGetDimensions)(info, sizes.data(), rank));
  void* data = nullptr;
  check(slot<Status(void*, void**)>(kGetTensorMutableData)(const_cast<void*>(value), &data));
  auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(torch_type(element_type)));
  return at::from_blob(data, sizes, options);
}

void write_output(void* context, size_t index, const at::Tensor& returned, int element_type) {
  at::Tensor result = returned.is_complex() ? at::view_as_real(returned.resolve_conj()) : returned;
  if (static_cast<int>(result.scalar_type()) != torch_type(element_type)) {
    throw std::runtime_error("result " + std::to_string(index) + " is " + c10::toString(result.scalar_type()) +
                             ", and the model declares the ONNX element type " + std::to_string(element_type));
  }
  auto sizes = result.sizes();
  void* value = nullptr;
  check(slot<Status(void*, size_t, const int64_t*, size_t, void**)>(kContextGetOutput)(
      context, index, sizes.data(), sizes.size(), &value));
  if (result.numel() == 0) return;
  void* data = nullptr;
  check(slot<Status(void*, void**)>(kGetTensorMutableData)(value, &data));
  at::Tensor dense = result.resolve_neg().contiguous();
  std::memcpy(data, dense.const_data_ptr(), dense.nbytes());
}

void flatten(const c10::IValue& value, std::vector<at::Tensor>& into) {
  if (value.isTensor()) {
    into.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) into.push_back(each);
  } else if (value.isInt()) {
    into.push_back(at::scalar_tensor(value.toInt(), at::TensorOptions().dtype(at::kLong)));
  } else if (value.isBool()) {
    into.push_back(at::scalar_tensor(value.toBool(), at::TensorOptions().dtype(at::kBool)));
  } else if (value.isDouble()) {
    into.push_back(at::scalar_tensor(value.toDouble(), at::TensorOptions().dtype(at::kFloat)));
  } else {
    throw std::runtime_error("a result is no tensor: " + value.tagKind());
  }
}

c10::IValue from_inputs(const Argument& argument, const std::vector<at::Tensor>& inputs, size_t& next) {
  if (argument.kind == "tensors") {
    std::vector<at::Tensor> elements(inputs.begin() + next, inputs.begin() + next + argument.pattern.size());
    next += argument.pattern.size();
    return elements;
  }
  if (argument.kind == "optionals") {
    c10::List<std::optional<at::Tensor>> elements;
    for (char each : argument.pattern) {
      elements.push_back(each == '1' ? std::optional<at::Tensor>(inputs[next++]) : std::nullopt);
    }
    return elements;
  }
  const at::Tensor& tensor = inputs[next++];
  if (argument.kind == "tensor") return tensor;
  if (argument.kind == "complex") return at::view_as_complex(tensor);
  if (argument.kind == "integer") return tensor.item().toLong();
  if (argument.kind == "float") return tensor.item().toDouble();
  if (argument.kind == "boolean") return tensor.item().toBool();
  at::Tensor wide = tensor.to(argument.kind == "integers" ? at::kLong : at::kDouble).contiguous();
  if (argument.kind == "integers") {
    const auto* data = wide.const_data_ptr<int64_t>();
    return std::vector<int64_t>(data, data + wide.numel());
  }
  const auto* data = wide.const_data_ptr<double>();
  return std::vector<double>(data, data + wide.numel());
}

void call(const Operator& op, void* context) {
  at::NoGradGuard no_gradients;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> inputs;
  inputs.reserve(op.input_types.size());
  for (size_t index = 0; index < op.input_types.size(); ++index) {
    inputs.push_back(input_tensor(context, index, op.input_types[index]));
  }
  torch::jit::Stack stack;
  size_t next = 0;
  for (const Argument& argument : op.arguments) {
    stack.push_back(argument.kind == "constant" ? argument.constant : from_inputs(argument, inputs, next));
  }
  op.handle.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) flatten(value, results);
  if (results.size() != op.output_types.size()) {
    throw std::runtime_error("it returned " + std::to_string(results.size()) + " tensors, and the model declares " +
                             std::to_string(op.output_types.size()));
  }
  for (size_t index = 0; index < results.size(); ++index) write_output(context, index, results[index], op.output_types[index]);
}

Status guarded(const Operator& op, void* context) {
  try {
    call(op, context);
    return nullptr;
  } catch (const c10::Error& error) {
    return status(op.torch_name + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return status(op.torch_name + ": " + error.what());
  } catch (...) {
    return status(op.torch_name + ": an exception of an unknown type");
  }
}

// The functions of OrtCustomOp. A kernel is the operator itself: it has no state.

void fill(Operator& op) {
  op.version = kApiVersion;
  op.get_name = [](const OrtCustomOp* each) { return self(each).name.c_str(); };
  op.get_provider = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op.get_input_type = [](const OrtCustomOp* each, size_t index) { return self(each).input_types[index]; };
  op.get_input_count = [](const OrtCustomOp* each) { return self(each).input_types.size(); };
  op.get_output_type = [](const OrtCustomOp* each, size_t index) { return self(each).output_types[index]; };
  op.get_output_count = [](const OrtCustomOp* each) { return self(each).output_types.size(); };
  op.destroy = [](void*) {};
  op.get_input_characteristic = [](const OrtCustomOp*, size_t) { return 0; };
  op.get_output_characteristic = [](const OrtCustomOp*, size_t) { return 0; };
  op.get_input_memory = [](const OrtCustomOp*, size_t) { return 0; };
  op.get_variadic_input_minimum = [](const OrtCustomOp*) { return 1; };
  op.get_variadic_input_homogeneous = [](const OrtCustomOp*) { return 1; };
  op.get_variadic_output_minimum = [](const OrtCustomOp*) { return 1; };
  op.get_variadic_output_homogeneous = [](const OrtCustomOp*) { return 1; };
  op.create_kernel_v2 = [](const OrtCustomOp* each, const void*, const void*, void** kernel) -> Status {
    *kernel = const_cast<OrtCustomOp*>(each);
    return nullptr;
  };
  op.compute_v2 = [](void* kernel, void* context) { return guarded(self(static_cast<OrtCustomOp*>(kernel)), context); };
  op.get_start_version = [](const OrtCustomOp*) { return 1; };
  op.get_end_version = [](const OrtCustomOp*) { return INT32_MAX; };
}

// The text of a declaration: a line for the operator (its name in ONNX, in torch, its overload or "-"), then lines for its types
// and arguments, then "end".

std::string word(std::istringstream& line) {
  std::string text;
  line >> text;
  return text;
}

std::string from_hex(const std::string& digits) {
  std::string text;
  for (size_t index = 1; index + 1 < digits.size(); index += 2) {  // after the mark "x", for empty texts
    text.push_back(static_cast<char>(std::stoi(digits.substr(index, 2), nullptr, 16)));
  }
  return text;
}

template <typename T, typename Read>
std::vector<T> list(std::istringstream& line, Read read) {
  std::vector<T> values;
  for (std::string text; line >> text;) values.push_back(static_cast<T>(read(text)));
  return values;
}

c10::IValue constant(const std::string& kind, std::istringstream& line) {
  auto integer = [](const std::string& text) { return std::stoll(text); };
  auto real = [](const std::string& text) { return std::stod(text); };
  if (kind == "none") return c10::IValue();
  if (kind == "i") return static_cast<int64_t>(integer(word(line)));
  if (kind == "f") return real(word(line));
  if (kind == "b") return word(line) == "1";
  if (kind == "s") return from_hex(word(line));
  if (kind == "device") return c10::Device(word(line));
  if (kind == "is") return list<int64_t>(line, integer);
  if (kind == "fs") return list<double>(line, real);
  if (kind == "bs") {
    c10::List<bool> values;
    for (std::string text; line >> text;) values.push_back(text == "1");
    return values;
  }
  if (kind == "ss") {
    c10::List<std::string> values;
    for (std::string text; line >> text;) values.push_back(from_hex(text));
    return values;
  }
  throw std::runtime_error("the declaration has an unknown constant " + kind);
}

// A number in place of a tensor: it does not take part in type promotion as a tensor would.
at::Tensor wrapped_number(const c10::IValue& value) {
  auto dtype = value.isDouble() ? at::kDouble : value.isBool() ? at::kBool : at::kLong;
  at::Tensor made = at::scalar_tensor(value.toScalar(), at::TensorOptions().dtype(dtype));
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

std::vector<std::unique_ptr<Operator>> parse(const std::string& text) {
  std::vector<std::unique_ptr<Operator>> operators;
  std::istringstream lines(text);
  for (std::string content; std::getline(lines, content);) {
    std::istringstream line(content);
    std::string what = word(line);
    if (what == "operator") {
      std::string name = word(line), torch_name = word(line), overload = word(line);
      auto found = c10::Dispatcher::singleton().findSchema({torch_name, overload == "-" ? "" : overload});
      if (!found) throw std::runtime_error("torch has no operator " + torch_name + (overload == "-" ? "" : "." + overload));
      operators.push_back(std::make_unique<Operator>(*found));
      operators.back()->name = name;
      operators.back()->torch_name = torch_name;
      fill(*operators.back());
    } else if (what == "inputs" || what == "outputs") {
      auto types = list<int>(line, [](const std::string& each) { return std::stoi(each); });
      for (int each : types) {
        if (torch_type(each) < 0) throw std::runtime_error("torch has no dtype for the ONNX element type " + std::to_string(each));
      }
      (what == "inputs" ? operators.back()->input_types : operators.back()->output_types) = types;
    } else if (what == "constant" || what == "number") {
      std::string kind = word(line);
      c10::IValue value = constant(kind, line);
      operators.back()->arguments.push_back({"constant", "", what == "number" ? wrapped_number(value) : value});
    } else {
      operators.back()->arguments.push_back({what, word(line), c10::IValue()});
    }
  }
  return operators;
}

// What lives as long as the process: ONNX Runtime keeps pointers to operators and domains.

struct Domain {
  std::vector<std::unique_ptr<Operator>> operators;
  void* handle = nullptr;
};

std::mutex mutex;
std::unordered_map<std::string, Domain> domains;
std::string next_text;
std::string last_error;

// Returns "" where ONNX Runtime's table is the known one, else what differs.
std::string check_layout(const ApiBase* base) {
  std::string version = base->get_version();
  api = base->get_api(kApiVersion);
  if (version.rfind("1.", 0) != 0 || api == nullptr) return "ONNX Runtime " + version + " does not offer version 20 of its C API";
  const char* text = "onnxexp";
  Status made = slot<Status(int, const char*)>(kCreateStatus)(3, text);
  bool known = made != nullptr && slot<int(Status)>(kGetErrorCode)(made) == 3 &&
               std::strcmp(slot<const char*(Status)>(kGetErrorMessage)(made), text) == 0;
  if (made != nullptr) slot<void(Status)>(kReleaseStatus)(made);
  return known ? "" : "the C API of ONNX Runtime " + version + " has another layout";
}

}  // namespace

extern "C" {

// Declares the operators that the next registration adds. Returns "" or why that is not possible.
const char* onnxexp_bridge_declare(const char* text) {
  std::lock_guard<std::mutex> lock(mutex);
  last_error.clear();
  try {
    if (domains.find(text) == domains.end()) domains[text].operators = parse(text);
    next_text = text;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  if (!last_error.empty()) domains.erase(text);
  return last_error.c_str();
}

// Why the last registration added nothing; "" where it did.
const char* onnxexp_bridge_error() { return last_error.c_str(); }

Status RegisterCustomOps(void* options, const ApiBase* base) {
  std::lock_guard<std::mutex> lock(mutex);
  last_error = check_layout(base);
  if (!last_error.empty()) return nullptr;  // without the table there is no way to make a status
  try {
    Domain& domain = domains.at(next_text);
    if (domain.handle == nullptr) {
      check(slot<Status(const char*, void**)>(kCreateCustomOpDomain)("onnxexp.torch_bridge", &domain.handle));
      for (auto& each : domain.operators) {
        check(slot<Status(void*, const OrtCustomOp*)>(kCustomOpDomainAdd)(domain.handle, each.get()));
      }
    }
    check(slot<Status(void*, void*)>(kAddCustomOpDomain)(options, domain.handle));
    return nullptr;
  } catch (const std::exception& error) {
    return status(error.what());
  }
}
}
