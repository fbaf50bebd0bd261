// Damaged files never crash the importer, keep it busy or fill the memory,
// whatever it answers. The bytes and the fields of small official models are
// mutated from a printed seed.
//
// GPUPOOL_FUZZ_ROUNDS sets the mutations per model (2), GPUPOOL_FUZZ_SEED the
// seed. A failure names model, seed and round. The same seed gives the same
// mutation, whatever the earlier rounds were.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/fuzz/sanitized.h"

namespace gpupool::engine::onnx_import {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr uint64_t kSeed = 20240917;
constexpr size_t kMaxFileBytes = 4096;
constexpr unsigned kMutationHungSeconds = 30;
constexpr int64_t kMostKilobytes = int64_t{1} << 20;

uint64_t SettingOr(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<std::string> SmallModels() {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const char* kind : {"node", "simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             absl::StrCat("/usr/share/libonnx-testdata/data/", kind),
             ignored)) {
      const auto model = entry.path() / "model.onnx";
      if (std::filesystem::file_size(model, ignored) <= kMaxFileBytes) {
        paths.push_back(model.string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Makes one to four mutations: changes a byte, removes a byte, repeats some
// bytes, or cuts the rest off.
std::string MutateBytes(std::string bytes, Philox& random) {
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

int64_t MutatedInteger(Philox& random) {
  constexpr int64_t kOdd[] = {0,
                              1,
                              -1,
                              2,
                              7,
                              -8,
                              100,
                              65537,
                              int64_t{1} << 22,
                              int64_t{1} << 31,
                              (int64_t{1} << 32) - 1,
                              int64_t{1} << 48,
                              int64_t{1} << 62,
                              std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()};
  return kOdd[random.NextBelow(std::size(kOdd))];
}

float OddNumber(Philox& random) {
  constexpr float kOdd[] = {0,
                            -0.0F,
                            1,
                            -1,
                            0.5F,
                            1e-30F,
                            1e30F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  return kOdd[random.NextBelow(std::size(kOdd))];
}

// Collects every message of the tree that has a field set.
void Collect(Message& message, std::vector<Message*>& all) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  if (!fields.empty()) all.push_back(&message);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Collect(*reflection.MutableMessage(&message, field), all);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      Collect(*reflection.MutableRepeatedMessage(&message, field, i), all);
    }
  }
}

std::string OddText(const std::string& text, Philox& random) {
  switch (random.NextBelow(4)) {
    case 0:
      return "";
    case 1:
      return text + text;
    case 2:
      return text.substr(0, text.size() / 2);
    default:
      return "x";
  }
}

void ChangeRepeated(Message& message, const FieldDescriptor* field,
                    Philox& random) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, field);
  const auto at =
      static_cast<int>(random.NextBelow(static_cast<uint64_t>(size)));
  switch (random.NextBelow(4)) {
    case 0:
      return reflection.RemoveLast(&message, field);
    case 1:
      return reflection.SwapElements(&message, field, at, size - 1);
    case 2:
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        reflection.AddMessage(&message, field)
            ->CopyFrom(reflection.GetRepeatedMessage(message, field, at));
      }
      return;
    default:
      break;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetRepeatedInt64(&message, field, at,
                                         MutatedInteger(random));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetRepeatedInt32(
          &message, field, at, static_cast<int32_t>(MutatedInteger(random)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetRepeatedFloat(&message, field, at,
                                         OddNumber(random));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetRepeatedString(
          &message, field, at,
          OddText(reflection.GetRepeatedString(message, field, at), random));
    default:
      return;
  }
}

void ChangeSingle(Message& message, const FieldDescriptor* field,
                  Philox& random) {
  const Reflection& reflection = *message.GetReflection();
  if (random.NextBelow(6) == 0) return reflection.ClearField(&message, field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, field, MutatedInteger(random));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, field,
                                 static_cast<int32_t>(random.NextBelow(24)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, field, OddNumber(random));
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text = reflection.GetString(message, field);
      // Raw data usually keeps its size, since a wrong size is refused early.
      if (field->name() == "raw_data" && random.NextBelow(4) != 0) {
        for (char& byte : text) byte = static_cast<char>(random.NextBelow(256));
        return reflection.SetString(&message, field, text);
      }
      return reflection.SetString(&message, field, OddText(text, random));
    }
    default:
      return;
  }
}

// Gives one to three fields values that exporters never write.
std::string MutateFields(const std::string& bytes, Philox& random) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return bytes;
  const uint64_t changes = 1 + random.NextBelow(3);
  for (uint64_t i = 0; i < changes; ++i) {
    std::vector<Message*> all;
    Collect(model, all);
    Message& message = *all[random.NextBelow(all.size())];
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    const FieldDescriptor* field = fields[random.NextBelow(fields.size())];
    if (field->is_repeated()) {
      ChangeRepeated(message, field, random);
    } else {
      ChangeSingle(message, field, random);
    }
  }
  return model.SerializeAsString();
}

// The present import, for the handler of a hang.
char current[512];

void ReportHang(int /*signal*/) {
  constexpr char kText[] = "\nhangs or crashes: ";
  ssize_t ignored = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ignored += write(STDERR_FILENO, current, strnlen(current, sizeof(current)));
  ignored += write(STDERR_FILENO, "\n", 1);
  _exit(ignored > 0 ? 3 : 4);
}

struct Counts {
  int parsed = 0;
  int imported = 0;
};

void ImportMutation(const std::string& bytes, Counts& counts) {
  alarm(kMutationHungSeconds);
  const auto model = OnnxFile::Parse(bytes, {});
  if (!model.ok()) {
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument)
        << current << ": " << model.status();
    return;
  }
  ++counts.parsed;
  const auto graph = ImportOnnx(**model, {.batch = 2});
  EXPECT_NE(graph.status().code(), absl::StatusCode::kInternal)
      << current << ": " << graph.status();
  counts.imported += graph.ok() ? 1 : 0;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  if (!kSanitized) {
    ASSERT_LE(usage.ru_maxrss, kMostKilobytes) << current;
  }
}

TEST(MutatedFilesTest, DamagedModelsAreAnsweredNotCrashed) {
  const std::vector<std::string> models = SmallModels();
  if (models.empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
  const uint64_t seed = SettingOr("GPUPOOL_FUZZ_SEED", kSeed);
  const uint64_t rounds = SettingOr("GPUPOOL_FUZZ_ROUNDS", 2);
  std::printf("seed %llu, %llu rounds, %zu models\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(rounds), models.size());
  signal(SIGALRM, ReportHang);
  if (!kSanitized) signal(SIGSEGV, ReportHang);
  Counts counts;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < models.size(); ++i) {
      std::snprintf(current, sizeof(current), "%s seed %llu round %llu",
                    models[i].c_str(), static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(round));
      std::ifstream file(models[i], std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
      Philox random(seed + round, i);
      ImportMutation(MutateBytes(bytes, random), counts);
      for (int k = 0; k < 4; ++k) {
        ImportMutation(MutateFields(bytes, random), counts);
      }
      if (HasFatalFailure()) return;
    }
  }
  alarm(0);
  std::printf("%d parsed, %d imported\n", counts.parsed, counts.imported);
  // If nothing is imported, the mutations are too coarse to reach the importer.
  EXPECT_GT(counts.imported, 0);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
