// gpupool models check with a script instead of the worker.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelsCheckTest : public CommandTest {
 protected:
  // Runs the verb with a worker that runs `script`.
  int Check(const std::string& script, std::vector<std::string> more = {}) {
    const std::string worker = WriteFile("worker", "#!/bin/sh\n" + script);
    ::chmod(worker.c_str(), 0700);
    more.insert(more.begin(), {"models", "check", WriteFile("m.onnx", "x"),
                               "--worker-binary", worker});
    return Run(more);
  }
  static std::string Echo(const std::string& json) {
    return "echo '" + json + "'\n";
  }
};

constexpr char kGood[] =
    R"({"onnx": {"irVersion": "8", "producer": "pytorch 2.1",
        "operatorSets": [{"domain": "ai.onnx", "version": "17"}],
        "operators": [{"name": "Conv", "nodes": "20"},
                      {"name": "Relu", "nodes": "1"}],
        "stored": [{"type": "FLOAT", "tensors": "1", "elements": "1200"}]},
      "serving": {"maxBatchSize": 32, "plan": {"parameters": "1200",
        "inferenceFlopsPerExample": "3000000",
        "inputs": [{"name": "pixels", "dataType": "FLOAT32",
                    "shape": ["-1", "3"]}],
        "inference": {"peak": "2097152"}}},
      "training": {"batchSize": 32, "flops": "500",
        "bytes": {"peak": "4194304"}},
      "warnings": ["tensors are tied"]})";

TEST_F(ModelsCheckTest, TheFileItsUsesAndTheWarnings) {
  EXPECT_EQ(Check(Echo(kGood)), 0) << err();
  EXPECT_THAT(
      out(),
      AllOf(HasSubstr("m.onnx: 1,200 parameters, 3.0M FLOPs per example"),
            HasSubstr("ONNX, IR version 8, operator sets ai.onnx 17"),
            HasSubstr("pytorch 2.1"), HasSubstr("20 Conv, 1 Relu"),
            HasSubstr("FLOAT 1,200 in 1 tensor\n"),
            HasSubstr("input\tpixels\tfloat32\t[-1,3]"),
            HasSubstr("serve\tyes\t32\t2.0 MiB"),
            HasSubstr("train\tyes\t32\t4.0 MiB\t500"),
            Not(HasSubstr("not served"))));
  EXPECT_THAT(err(), HasSubstr("warning: tensors are tied"));
}

TEST_F(ModelsCheckTest, AModelThatCannotBeServedFails) {
  EXPECT_EQ(Check(Echo(R"({"serving": {"refused": "no operator X"},
                           "training": {"refused": "no operator X"}})")),
            1);
  EXPECT_THAT(out(), AllOf(HasSubstr("serve\tno"), HasSubstr("train\tno"),
                           HasSubstr("not served: no operator X\n"),
                           Not(HasSubstr("not trained"))));
}

TEST_F(ModelsCheckTest, ServingIsPossibleWithoutTraining) {
  EXPECT_EQ(Check(Echo(R"({"serving": {"plan": {}, "maxBatchSize": 1},
                           "training": {"refused": "no weights"}})")),
            0);
  EXPECT_THAT(out(), HasSubstr("not trained: no weights\n"));
}

TEST_F(ModelsCheckTest, JsonIsForScripts) {
  EXPECT_EQ(Check(Echo(kGood), {"-o", "json"}), 0) << err();
  EXPECT_EQ(
      nlohmann::json::parse(out()).at("serving").at("plan").at("parameters"),
      "1200");
}

TEST_F(ModelsCheckTest, TheWorkerGetsTheRequestInMemory) {
  const std::string seen = WriteFile("seen", "");
  const std::string line = WriteFile("line", "");
  EXPECT_EQ(Check("echo \"$@\" > " + line + "\ncat \"$4\" > " + seen + "\n" +
                      Echo(kGood),
                  {"--dimension", "sequence=128", "--max-batch-size", "4",
                   "--precision", "bf16", "--training-batch", "8"}),
            0)
      << err();
  std::ifstream request(seen);
  const auto json = nlohmann::json::parse(request);
  EXPECT_THAT(json.at("spec").at("onnx").at("file"), HasSubstr("m.onnx"));
  EXPECT_EQ(json.at("spec").at("onnx").at("dimensions").at("sequence"), "128");
  EXPECT_EQ(json.at("maxBatchSize"), 4);
  EXPECT_EQ(json.at("precision"), "BF16");
  std::ifstream arguments(line);
  std::string check, option, rows, path;
  arguments >> check >> option >> rows >> path;
  EXPECT_EQ(check + " " + option + " " + rows, "check --training-batch 8");
  EXPECT_THAT(path, HasSubstr("/proc/self/fd/"));
}

TEST_F(ModelsCheckTest, OptionsOfOnnxFilesAreRefusedWithLayers) {
  const std::string file = WriteFile("m.yaml", "input_shape: 4\n");
  for (const auto& [option, value] :
       {std::pair("--dimension", "sequence=4"), std::pair("--pad", "x=0"),
        std::pair("--bound", "x=1"), std::pair("--unbatched-input", "x")}) {
    EXPECT_EQ(Run({"models", "check", file, option, value}), 2) << option;
    EXPECT_THAT(err(), AllOf(HasSubstr(option), HasSubstr("m.yaml is YAML")));
  }
}

TEST_F(ModelsCheckTest, WhatIsNoModelIsAnError) {
  EXPECT_EQ(Check(Echo(R"({"refused": "the bytes are not an ONNX model"})")),
            2);
  EXPECT_THAT(err(), HasSubstr("m.onnx: the bytes are not an ONNX model"));
}

TEST_F(ModelsCheckTest, AFileThatEndsTheWorkerIsNamed) {
  EXPECT_EQ(Check("kill -6 $$"), 1);
  EXPECT_THAT(err(),
              AllOf(HasSubstr("killed by signal 6"), HasSubstr("m.onnx")));
}

TEST_F(ModelsCheckTest, AWorkerOfAnotherBuildIsTold) {
  EXPECT_EQ(Check("echo nonsense"), 5);
  EXPECT_THAT(err(), HasSubstr("of one build"));
  EXPECT_EQ(Check("exit 2"), 5);
}

TEST_F(ModelsCheckTest, AMissingFileOrWorkerIsNamed) {
  EXPECT_EQ(Run({"models", "check", "/no/model.onnx"}), 3);
  EXPECT_THAT(err(), HasSubstr("/no/model.onnx"));
  EXPECT_EQ(Run({"models", "check", WriteFile("m.onnx", "x"), "--worker-binary",
                 "/no/worker"}),
            3);
  EXPECT_THAT(err(), HasSubstr("--worker-binary"));
}

}  // namespace
}  // namespace gpupool::client
