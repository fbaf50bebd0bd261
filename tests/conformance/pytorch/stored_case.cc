#include "tests/conformance/pytorch/stored_case.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/pytorch/formula.h"
#include "tests/engine/testing/onnx_program.h"
#include "tests/test_paths.h"

namespace gpupool::testing {
namespace {

namespace fs = std::filesystem;

// Writes the weights. Each range of the file holds one weight.
void WriteWeights(const nlohmann::json& ranges, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const nlohmann::json& range : ranges) {
    const uint64_t first = range["first"];
    std::vector<float> numbers(range["count"].get<size_t>());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = Uniform(first + i, range["scale"], range["shift"]);
    }
    file.seekp(static_cast<std::streamoff>(first * sizeof(float)));
    file.write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  }
}

}  // namespace

StoredCase OpenStoredCase(const std::string& name) {
  const std::string stem =
      absl::StrCat(SourcePath("tests/conformance/pytorch/data/"), name);
  StoredCase stored;
  std::ifstream(stem + ".json") >> stored.facts;
  const fs::path weights =
      fs::temp_directory_path() /
      absl::StrCat("gpupool-", name, "-", ::getpid(), ".bin");
  WriteWeights(stored.facts["weights"], weights.string());
  auto source = engine::testing::OpenOnnx({.model = stem + ".onnx",
                                           .external = weights.string(),
                                           .external_location = "weights.bin"});
  fs::remove(weights);
  if (!source.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(),
                 source.status().ToString().c_str());
    std::abort();
  }
  stored.source = *std::move(source);
  return stored;
}

}  // namespace gpupool::testing
