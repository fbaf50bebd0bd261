#include "client/cli/models/model_file_options.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/yaml/precision_words.h"
#include "client/yaml/yaml_message.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::client {
namespace {

constexpr uint32_t kDefaultPrograms = v1::DEFAULT_SERVED_PROGRAMS;
constexpr uint32_t kMostPrograms = v1::MAX_SERVED_PROGRAMS;

// Returns the first option that is given and describes an ONNX file only, or
// "".
std::string OnnxOption(const ModelFileOptions& options) {
  if (!options.sizes.dimensions.empty()) return "--dimension";
  if (!options.sizes.padding.empty()) return "--pad";
  if (!options.sizes.bound.empty()) return "--bound";
  return options.unbatched_inputs.empty() ? "" : "--unbatched-input";
}

}  // namespace

void AddModelFileOptions(CLI::App& verb, ModelFileOptions& options) {
  verb.add_option("FILE", options.file,
                  "An ONNX file (with its external data beside it), or a YAML "
                  "file with layers")
      ->required();
  verb.add_option("--dimension", options.sizes.dimensions,
                  "Size of a named dimension of an ONNX model, or the sizes to "
                  "serve: a range 1:512 or a list 64,128; or how it follows "
                  "from others: past+sequence; may be repeated")
      ->type_name("NAME=SIZES");
  verb.add_option("--pad", options.sizes.padding,
                  "Pad this input with a number up to the next listed size")
      ->type_name("INPUT=NUMBER");
  verb.add_option("--bound", options.sizes.bound,
                  "An input whose numbers determine shapes, with the largest "
                  "numbers to expect, or a .npy file of them")
      ->type_name("INPUT=NUMBERS");
  verb.add_option("--unbatched-input", options.unbatched_inputs,
                  "An input whose first dimension is not the batch")
      ->type_name("NAME");
  AddMaxBatchSize(verb, options.max_batch_size);
  verb.add_option(
          "--max-programs", options.max_programs,
          absl::StrCat(
              "Maximum number of programs to keep when sizes vary, 1 to ",
              kMostPrograms, " (default: ", kDefaultPrograms, ")"))
      ->check(CLI::Range(1u, kMostPrograms))
      ->type_name("N");
  verb.add_option("--precision", options.precision,
                  "Arithmetic of products: highest, high (TF32 on GPUs), bf16 "
                  "or fp16 (default: highest)")
      ->check(CLI::Validator(
          [](std::string& word) {
            return std::string(ParsePrecision(word).status().message());
          },
          "{highest,high,bf16,fp16}"))
      ->type_name("PRECISION");
}

v1::Precision PrecisionOf(const std::string& name) {
  return ParsePrecision(name).value_or(v1::PRECISION_UNSPECIFIED);
}

absl::StatusOr<v1::ModelSpec> ReadModelSpec(const ModelFileOptions& options) {
  v1::ModelSpec spec;
  if (absl::EndsWith(options.file, ".yaml") ||
      absl::EndsWith(options.file, ".yml")) {
    const std::string option = OnnxOption(options);
    if (!option.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          option, " is for ONNX files; ", options.file,
          " is YAML: leave the option away, or write what it says under `onnx` "
          "in the file"));
    }
    absl::Status read = YamlFileToMessage(options.file, spec);
    if (!read.ok()) return read;
    return spec;
  }
  v1::OnnxModel& onnx = *spec.mutable_onnx();
  onnx.set_file(options.file);
  absl::Status status = SetSizes(options.sizes, onnx);
  if (!status.ok()) return status;
  for (const std::string& name : options.unbatched_inputs) {
    onnx.add_unbatched_inputs(name);
  }
  return spec;
}

}  // namespace gpupool::client
