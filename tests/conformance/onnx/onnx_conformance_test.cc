// One test for each official case and back end. At the end, prints the counts
// per family and the operators of unsupported cases.
//
// ONNX_CASES_DIR=FOLDER onnx_conformance_test runs the cases of another version
// of ONNX: FOLDER is its onnx/backend/test/data. There, and with a newer
// package than ONNX 1.12, a case may be refused, which skips it, but not
// computed wrong.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/conformance/onnx/case_runner.h"
#include "tests/conformance/onnx/cases.h"
#include "tests/conformance/onnx/expected_unsupported.h"

namespace gpupool::engine::onnx_import {

// Names the case in gtest's messages.
void PrintTo(const Case& test, std::ostream* stream) { *stream << test.name; }

namespace {

struct Counts {
  int passed = 0, failed = 0, unsupported = 0;
  std::set<std::string> operators;  // of unsupported cases
};

// Prints the counts of this process's tests.
class Summary : public ::testing::Environment {
 public:
  void TearDown() override {
    for (const auto& [family, counts] : families_) {
      std::printf("%s: %d passed, %d failed, %d unsupported%s%s\n",
                  family.c_str(), counts.passed, counts.failed,
                  counts.unsupported, counts.operators.empty() ? "" : ": ",
                  absl::StrJoin(counts.operators, ", ").c_str());
    }
  }

  std::map<std::string, Counts> families_;
};

Summary* const summary =
    static_cast<Summary*>(::testing::AddGlobalTestEnvironment(new Summary));

// Returns whether the case is not supported, which is no failure. Of cases
// that no list describes, one may be refused but not computed wrong.
bool IsUnsupported(const Case& test, const absl::Status& status) {
  if (!AreCasesDescribed() && IsInexactWhenNewer(test.name)) return true;
  return !WhyUnsupported(test.name).empty() ||
         (!AreCasesDescribed() && !status.ok() && !absl::IsDataLoss(status));
}

void Count(const std::string& where, const Case& test,
           const absl::Status& status) {
  Counts& counts = summary->families_[where + " " + test.family];
  if (status.ok()) {
    ++counts.passed;
  } else if (!IsUnsupported(test, status)) {
    ++counts.failed;
  } else {
    ++counts.unsupported;
    const auto file = OnnxFile::Open(test.folder + "/model.onnx");
    if (!file.ok()) return;
    for (const std::string& name : OperatorsOf(**file)) {
      counts.operators.insert(name);
    }
  }
}

void RunAndCheck(const Case& test, CaseBackend backend,
                 const std::string& where) {
  const absl::Status status = RunCase(test, backend);
  Count(where, test, status);
  if (backend == CaseBackend::kPortable &&
      absl::StrContains(status.message(), "no portable kernel")) {
    GTEST_SKIP() << status.message();
  }
  if (!IsUnsupported(test, status)) {
    EXPECT_TRUE(status.ok()) << status;
  } else if (AreCasesDescribed()) {
    EXPECT_FALSE(status.ok()) << "listed as unsupported ("
                              << WhyUnsupported(test.name) << ") but works";
  } else if (!status.ok()) {
    GTEST_SKIP() << status.message();
  }
}

class OnnxCase : public ::testing::TestWithParam<Case> {};

TEST_P(OnnxCase, Reference) {
  RunAndCheck(GetParam(), CaseBackend::kReference, "reference");
}

TEST_P(OnnxCase, Cpu) { RunAndCheck(GetParam(), CaseBackend::kCpu, "cpu"); }

// The portable kernels of a GPU, run on the host.
TEST_P(OnnxCase, Portable) {
  RunAndCheck(GetParam(), CaseBackend::kPortable, "portable");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxCase);
INSTANTIATE_TEST_SUITE_P(Official, OnnxCase, ::testing::ValuesIn(AllCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return absl::StrReplaceAll(info.param.family,
                                                      {{"-", "_"}}) +
                                  "_" +
                                  absl::StrReplaceAll(info.param.name,
                                                      {{"-", "_"}});
                         });

TEST(OnnxCaseTest, OfficialCasesAreInstalled) {
  if (AllCases().empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
