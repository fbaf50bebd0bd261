#include "server/repository/model_sync.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "server/serving/ensembles.h"
#include "tests/server/repository/repository_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Calls that note whether the version they move is marked as replaced.
class WatchedCalls : public FakeCalls {
 public:
  explicit WatchedCalls(const ReplacedVersions* replaced)
      : replaced_(replaced) {}

  absl::Status Import(const RepositoryImport& import) override {
    Note("import", import.model.name());
    return FakeCalls::Import(import);
  }
  absl::Status Load(const std::string& model, uint64_t version,
                    const std::string& device) override {
    Note("load", model);
    return FakeCalls::Load(model, version, device);
  }

  std::vector<std::string> notes;

 private:
  void Note(const std::string& call, const std::string& model) {
    const auto nothing = [](absl::string_view) -> absl::StatusOr<v1::Model> {
      return absl::NotFoundError("not stored");
    };
    const bool marked = replaced_->WithReplaced(model, nothing).ok();
    notes.push_back(call + (marked ? " marked" : ""));
  }

  const ReplacedVersions* const replaced_;
};

class ModelSyncTest : public RepositoryTest {
 protected:
  SyncResult Bring(const std::string& name) {
    ModelSync sync({.calls = &calls_,
                    .blobs = blobs_.get(),
                    .file_limit_bytes = 10,
                    .stop = &stop_,
                    .set_caching = set_caching_,
                    .ensembles = &ensembles_});
    return sync.Bring(Find(name));
  }
  absl::Status UnloadOthers(const std::string& name,
                            const std::vector<uint64_t>& chosen,
                            bool all_served) {
    ModelSync sync({.calls = &calls_, .blobs = blobs_.get(), .stop = &stop_});
    return sync.UnloadOthers(Find(name), chosen, all_served);
  }
  void KeepCaching() {
    set_caching_ = [this](const std::string& model, bool on) {
      caching_.push_back(model + (on ? " on" : " off"));
    };
  }

  // Makes the folder of an ensemble with one step.
  void WriteEnsemble(const std::string& name, const std::string& step) {
    std::filesystem::create_directories(root() + "/" + name + "/1");
    Write(name + "/config.pbtxt",
          "platform: \"ensemble\" "
          "input { name: \"x\" data_type: TYPE_FP32 dims: -1 } "
          "output { name: \"y\" data_type: TYPE_FP32 dims: -1 } "
          "ensemble_scheduling { step { model_name: \"" +
              step +
              "\" input_map { key: \"in\" value: \"x\" } "
              "output_map { key: \"out\" value: \"y\" } } }");
  }

  ModelRegistry registry_;
  Ensembles ensembles_{&registry_,
                       [](absl::string_view) -> absl::StatusOr<v1::Model> {
                         return absl::NotFoundError("not stored");
                       },
                       nullptr};
  SetCaching set_caching_;  // empty: there is no response cache
  std::vector<std::string> caching_;
};

TEST_F(ModelSyncTest, ImportsTheChosenVersion) {
  Write("a/1/model.onnx", "one");
  Write("a/2/model.onnx", "two");
  const SyncResult result = Bring("a");
  EXPECT_TRUE(result.First().ok()) << result.First();
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/2"));
}

TEST_F(ModelSyncTest, WhatIsStoredIsOnlyLoaded) {
  Write("a/1/model.onnx", "one");
  Bring("a");
  calls_.TakeCalls();
  Bring("a");
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("load a/1"));
}

TEST_F(ModelSyncTest, OtherFilesOrOptionsAreImportedAgain) {
  Write("a/1/model.onnx", "one");
  Bring("a");
  Write("a/1/model.onnx", "other");
  Bring("a");
  Write("a/config.pbtxt", "max_batch_size: 4");
  calls_.plan.add_inputs()->add_shape(-1);
  Bring("a");
  EXPECT_THAT(calls_.TakeCalls(),
              ElementsAre("import a/1", "import a/1", "import a/1"));
}

TEST_F(ModelSyncTest, LabelsAreStoredWithTheVersion) {
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt",
        "output { name: \"y\" data_type: TYPE_FP32 dims: 2 "
        "label_filename: \"labels.txt\" }");
  v1::TensorSpec* const y = calls_.plan.add_outputs();
  y->set_name("y");
  y->set_data_type(v1::FLOAT32);
  y->add_shape(2);
  EXPECT_THAT(std::string(Bring("a").config.message()),
              HasSubstr("a/labels.txt"));
  Write("a/labels.txt", "cat\ndog\n");
  EXPECT_TRUE(Bring("a").First().ok()) << Bring("a").First();
  calls_.TakeCalls();
  Bring("a");
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("load a/1"));
  Write("a/labels.txt", "cat\nbird\n");
  Bring("a");
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/1"));
  EXPECT_EQ((*calls_.Versions())[0].serving().labels(0).labels(1), "bird");
}

TEST_F(ModelSyncTest, AVersionThatIsWantedElsewhereIsUnloadedFirst) {
  Write("a/1/model.onnx", "one");
  Bring("a");
  calls_.TakeCalls();
  Write("a/config.pbtxt", "instance_group { kind: KIND_CPU }");
  Bring("a");
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("unload a/1", "load a/1cpu"));
}

TEST_F(ModelSyncTest, AServedVersionIsMarkedWhileItIsReplaced) {
  ReplacedVersions replaced;
  WatchedCalls calls(&replaced);
  ModelSync sync({.calls = &calls,
                  .blobs = blobs_.get(),
                  .file_limit_bytes = 10,
                  .stop = &stop_,
                  .replaced = &replaced});
  Write("a/1/model.onnx", "one");
  sync.Bring(Find("a"));
  Write("a/1/model.onnx", "other");
  sync.Bring(Find("a"));
  sync.Bring(Find("a"));
  Write("a/config.pbtxt", "instance_group { kind: KIND_CPU }");
  sync.Bring(Find("a"));
  calls.SetState("a", 1, v1::UNLOADED);
  Write("a/1/model.onnx", "third");
  sync.Bring(Find("a"));
  EXPECT_THAT(calls.notes, ElementsAre("import", "import marked", "load",
                                       "load marked", "import"))
      << "only versions that are served have clients";
  const auto after = replaced.WithReplaced(
      "a", [](absl::string_view) -> absl::StatusOr<v1::Model> {
        return absl::NotFoundError("not stored");
      });
  EXPECT_TRUE(absl::IsNotFound(after.status())) << "the marks are gone";
}

TEST_F(ModelSyncTest, ABadConfigChangesNothing) {
  Write("a/1/model.onnx", "one");
  for (const char* text :
       {"unknown: 1", "sequence_batching { iterative_sequence: true }",
        "max_batch_size: -1"}) {
    Write("a/config.pbtxt", text);
    const SyncResult result = Bring("a");
    EXPECT_TRUE(absl::IsInvalidArgument(result.config)) << text;
    EXPECT_FALSE(result.MayPass());
  }
  EXPECT_THAT(calls_.TakeCalls(), IsEmpty());
}

TEST_F(ModelSyncTest, WithoutACacheAConfigThatWantsOneIsRefused) {
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt", "response_cache { enable: true }");
  const SyncResult refused = Bring("a");
  EXPECT_TRUE(absl::IsInvalidArgument(refused.config)) << refused.config;
  EXPECT_THAT(std::string(refused.config.message()),
              AllOf(HasSubstr("response_cache.enable is true"),
                    HasSubstr("--response-cache-bytes")));
  EXPECT_FALSE(refused.MayPass());
  EXPECT_THAT(calls_.TakeCalls(), IsEmpty());
}

TEST_F(ModelSyncTest, TheConfigSaysWhetherAnswersAreKept) {
  KeepCaching();
  Write("a/1/model.onnx", "one");
  Bring("a");
  Write("a/config.pbtxt", "response_cache { enable: true }");
  EXPECT_TRUE(Bring("a").First().ok());
  Write("a/config.pbtxt", "response_cache { enable: true } unknown: 1");
  Bring("a");
  EXPECT_THAT(caching_, ElementsAre("a off", "a on"));
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/1", "load a/1"))
      << "nothing is imported for it";
}

TEST_F(ModelSyncTest, VersionsOfAnEarlierServerKeepAnswersAgain) {
  KeepCaching();
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt", "response_cache { enable: true }");
  Write("b/1/model.onnx", "one");
  ModelSync sync({.calls = &calls_,
                  .blobs = blobs_.get(),
                  .stop = &stop_,
                  .set_caching = set_caching_});
  sync.ResumeCaching(Find("a"));
  sync.ResumeCaching(Find("b"));
  EXPECT_THAT(caching_, ElementsAre("a on"));
  EXPECT_THAT(calls_.TakeCalls(), IsEmpty());
}

TEST_F(ModelSyncTest, AConfigThatContradictsTheFileIsRefused) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "inputs { name: \"x\" data_type: FLOAT32 shape: [2, 3] }", &calls_.plan));
  Write("a/1/model.onnx", "one");
  Bring("a");
  Write("a/config.pbtxt",
        "input { name: \"x\" data_type: TYPE_FP32 dims: [2, 4] }");
  const SyncResult result = Bring("a");
  EXPECT_THAT(std::string(result.versions.at(1).message()),
              AllOf(HasSubstr("[2, 4]"), HasSubstr("[2, 3]")))
      << "also when the version is stored already";
}

TEST_F(ModelSyncTest, ABadVersionHurtsNoOther) {
  Write("a/config.pbtxt", "version_policy { all { } }");
  Write("a/1/model.onnx", "one");
  Write("a/2/model.onnx", "two");
  Write("a/3/model.onnx", "more than ten bytes");
  calls_.refusals[1] = absl::InvalidArgumentError("no ONNX file");
  const SyncResult result = Bring("a");
  EXPECT_TRUE(absl::IsInvalidArgument(result.versions.at(1)));
  EXPECT_TRUE(result.versions.at(2).ok());
  EXPECT_THAT(std::string(result.versions.at(3).message()),
              HasSubstr("at most 10"));
  EXPECT_EQ(result.First(), result.versions.at(1));
  EXPECT_FALSE(result.MayPass());
}

TEST_F(ModelSyncTest, AnErrorThatSaysNothingAboutTheFileMayPass) {
  Write("a/1/model.onnx", "one");
  calls_.refusals[1] = absl::UnavailableError("the worker starts");
  EXPECT_TRUE(Bring("a").MayPass());
}

TEST_F(ModelSyncTest, AChosenVersionThatIsNotThereIsNoted) {
  Write("a/config.pbtxt", "version_policy { specific { versions: [ 1, 7 ] } }");
  Write("a/1/model.onnx", "one");
  EXPECT_THAT(Bring("a").notes, ElementsAre(HasSubstr("has 7")));
}

TEST_F(ModelSyncTest, OthersAreUnloadedWhenTheChosenAreServed) {
  Write("a/config.pbtxt", "version_policy { all { } }");
  for (const char* path : {"a/1/model.onnx", "a/2/model.onnx", "a/3/model.onnx",
                           "b/1/model.onnx"}) {
    Write(path, "one");
  }
  Bring("a");
  Bring("b");
  Remove("a/1");
  calls_.TakeCalls();
  EXPECT_TRUE(UnloadOthers("a", {3}, false).ok());
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("unload a/1"))
      << "it was removed";
  EXPECT_TRUE(UnloadOthers("a", {3}, true).ok());
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("unload a/2"));
}

TEST_F(ModelSyncTest, AnEnsembleIsDefinedAndNothingIsStored) {
  WriteEnsemble("e", "a");
  std::filesystem::create_directories(root() + "/e/4");
  const SyncResult result = Bring("e");
  EXPECT_TRUE(result.First().ok()) << result.First();
  EXPECT_TRUE(result.is_ensemble);
  ASSERT_EQ(result.versions.size(), 1u);
  EXPECT_EQ(result.versions.begin()->first, 4u) << "the highest folder";
  EXPECT_THAT(ensembles_.Names(), ElementsAre("e"));
  EXPECT_THAT(calls_.TakeCalls(), IsEmpty());
}

TEST_F(ModelSyncTest, AnEnsembleNeedsAFolderOfAVersion) {
  WriteEnsemble("e", "a");
  Remove("e/1");
  EXPECT_THAT(std::string(Bring("e").config.message()), HasSubstr("make e/1"));
  EXPECT_THAT(ensembles_.Names(), IsEmpty());
}

TEST_F(ModelSyncTest, ABadConfigLeavesTheEnsembleAsItWas) {
  WriteEnsemble("e", "a");
  ASSERT_TRUE(Bring("e").First().ok());
  Write("e/config.pbtxt", "platform: \"ensemble\"");
  EXPECT_FALSE(Bring("e").First().ok());
  EXPECT_THAT(ensembles_.ModelsOf("e"), ElementsAre("a"));
}

TEST_F(ModelSyncTest, AFolderThatIsNoEnsembleAnyMoreForgetsIt) {
  WriteEnsemble("e", "a");
  ASSERT_TRUE(Bring("e").First().ok());
  Write("e/config.pbtxt", "");
  Write("e/2/model.onnx", "two");
  const SyncResult result = Bring("e");
  EXPECT_THAT(ensembles_.Names(), IsEmpty());
  EXPECT_THAT(result.notes,
              ElementsAre(HasSubstr("the folder of version 1 is empty")));
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import e/2"));
}

}  // namespace
}  // namespace gpupool::server
