// Damaged files never crash the importer, whatever it answers: a fixed number
// of mutations of small official models, made from a printed seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/import/onnx/onnx_import.h"

namespace gpupool::engine::onnx_import {
namespace {

constexpr uint64_t kSeed = 20240917;
constexpr int kMutationsPerFile = 8;
constexpr size_t kMaxFileBytes = 4096;

std::vector<std::string> SmallModels() {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/usr/share/libonnx-testdata/data/node", ignored)) {
    const auto model = entry.path() / "model.onnx";
    if (std::filesystem::file_size(model, ignored) <= kMaxFileBytes) {
      paths.push_back(model.string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// One to four of: another byte, a byte less, some bytes twice, a cut.
std::string Mutate(std::string bytes, Philox& random) {
  const uint64_t changes = 1 + random.NextBelow(4);
  for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random.NextBelow(bytes.size());
    switch (random.NextBelow(4)) {
      case 0:
        bytes[at] = static_cast<char>(random.NextBelow(256));
        break;
      case 1:
        bytes.erase(at, 1 + random.NextBelow(8));
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, 1 + random.NextBelow(16)));
        break;
      default:
        if (random.NextBelow(8) == 0) bytes.resize(at);
        bytes[at / 2] = static_cast<char>(bytes[at / 2] ^ 1);
    }
  }
  return bytes;
}

TEST(MutationTest, DamagedModelsAreAnsweredNotCrashed) {
  const std::vector<std::string> models = SmallModels();
  if (models.empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
  std::printf("seed %llu, %zu models\n", static_cast<unsigned long long>(kSeed),
              models.size());
  int parsed = 0, imported = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    std::ifstream file(models[i], std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    Philox random(kSeed, i);
    for (int k = 0; k < kMutationsPerFile; ++k) {
      SCOPED_TRACE(models[i] + " mutation " + std::to_string(k));
      const auto model = OnnxFile::Parse(Mutate(bytes, random), {});
      if (!model.ok()) {
        EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument)
            << model.status();
        continue;
      }
      ++parsed;
      const auto graph = ImportOnnx(**model, {.batch = 2});
      EXPECT_NE(graph.status().code(), absl::StatusCode::kInternal)
          << graph.status();
      imported += graph.ok() ? 1 : 0;
    }
  }
  std::printf("%d parsed, %d imported\n", parsed, imported);
  // Otherwise the mutations are too coarse to reach the importer.
  EXPECT_GT(imported, 0);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
