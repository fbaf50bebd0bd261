#include "server/repository/folder_repository.h"

#include <gmock/gmock.h>

#include <future>

#include "server/serving/ensembles.h"
#include "tests/server/repository/repository_fixture.h"
#include "tests/server/serving/served_model.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Models that are in no folder.
class OtherModels : public ModelRepository {
 public:
  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override {
    return versions;
  }
  void Load(const std::string& model, Done done) override {
    done(absl::NotFoundError(model));
  }
  void Unload(const std::string& model, UnloadScope, Done done) override {
    unloaded = model;
    done(absl::OkStatus());
  }
  std::vector<v1::ModelVersion> versions;
  std::string unloaded;  // the last one
};

class FolderRepositoryTest : public RepositoryTest {
 protected:
  std::unique_ptr<FolderRepository> Make(ModelControlMode mode) {
    return std::make_unique<FolderRepository>(
        FolderRepositoryOptions{.roots = {root()},
                                .mode = mode,
                                .interval = absl::Milliseconds(1),
                                .file_limit_bytes = 100},
        FolderRepositoryDependencies{
            .calls = &calls_,
            .blobs = blobs_.get(),
            .others = &others_,
            .set_caching =
                [this](const std::string& model, bool on) {
                  absl::MutexLock lock(&caching_mutex_);
                  caching_[model] = on;
                },
            .ensembles = &ensembles_});
  }
  // Writes the folder of an ensemble with one step.
  void WriteEnsemble(const std::string& name, const std::string& step) {
    std::filesystem::create_directories(root() + "/" + name + "/1");
    Write(name + "/config.pbtxt",
          "platform: \"ensemble\" max_batch_size: 4 "
          "input { name: \"x\" data_type: TYPE_FP32 dims: 2 } "
          "output { name: \"y\" data_type: TYPE_FP32 dims: 2 } "
          "ensemble_scheduling { step { model_name: \"" +
              step +
              "\" input_map { key: \"input\" value: \"x\" } "
              "output_map { key: \"output\" value: \"y\" } } }");
  }
  // Serves a version, as serving does when its worker has loaded it.
  void Serve(const std::string& model) {
    registry_.Add(MakeServedVersion(model, 1, 10, &timer_));
    ensembles_.Refresh();
  }
  // Returns the row of a model's only version.
  v1::ModelVersion RowOf(const std::string& model) {
    const auto rows = repository_->Versions();
    v1::ModelVersion found;
    for (const v1::ModelVersion& row : *rows) {
      if (row.model() == model) found = row;
    }
    return found;
  }
  bool KeepsAnswers(const std::string& model) {
    absl::MutexLock lock(&caching_mutex_);
    return caching_[model];
  }
  void Start(ModelControlMode mode) {
    repository_ = Make(mode);
    repository_->Start();
    ASSERT_TRUE(WaitUntil([&] { return repository_->loaded(); }));
  }
  bool Becomes(const std::string& model, uint64_t version,
               v1::VersionState state) {
    return WaitUntil([&] { return calls_.StateOf(model, version) == state; });
  }
  absl::Status Load(const std::string& model) {
    std::promise<absl::Status> answer;
    repository_->Load(
        model, [&](const absl::Status& status) { answer.set_value(status); });
    return answer.get_future().get();
  }
  void TearDown() override { repository_.reset(); }

  OtherModels others_;
  WakeTimer timer_;
  ModelRegistry registry_;
  Ensembles ensembles_{&registry_,
                       [](absl::string_view) -> absl::StatusOr<v1::Model> {
                         return absl::NotFoundError("not stored");
                       },
                       nullptr};
  absl::Mutex caching_mutex_;
  std::map<std::string, bool> caching_ ABSL_GUARDED_BY(caching_mutex_);
  std::unique_ptr<FolderRepository> repository_;
};

TEST_F(FolderRepositoryTest, NoneLoadsEverythingAtTheStart) {
  Write("a/1/model.onnx", "one");
  Write("b/3/model.onnx", "two");
  Start(ModelControlMode::kNone);
  EXPECT_EQ(calls_.StateOf("a", 1), v1::READY);
  EXPECT_EQ(calls_.StateOf("b", 3), v1::READY);
}

TEST_F(FolderRepositoryTest, ABadModelIsListedAndHurtsNoOther) {
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt", "runtime: \"r\"");
  Write("b/1/model.onnx", "two");
  Start(ModelControlMode::kNone);
  EXPECT_EQ(calls_.StateOf("b", 1), v1::READY);
  const auto versions = repository_->Versions();
  ASSERT_TRUE(versions.ok());
  ASSERT_EQ(versions->size(), 2u) << "the other one is not in OtherModels";
  EXPECT_EQ(versions->at(0).state(), v1::LOAD_FAILED);
  EXPECT_THAT(versions->at(0).error(), HasSubstr("runtime is not supported"));
}

TEST_F(FolderRepositoryTest, WhatMayPassIsTriedAgain) {
  calls_.refusals[1] = absl::UnavailableError("busy");
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kNone);
  std::vector<std::string> imports;
  EXPECT_TRUE(WaitUntil([&] {
    for (std::string& call : calls_.TakeCalls()) {
      imports.push_back(std::move(call));
    }
    return imports.size() == FolderHistory::kMaxTries;
  }));
}

TEST_F(FolderRepositoryTest, PollTakesWhatChanged) {
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kPoll);
  EXPECT_TRUE(Becomes("a", 1, v1::READY));
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/1"));
  Write("a/1/model.onnx", "other");
  std::vector<std::string> calls;
  EXPECT_TRUE(WaitUntil([&] {
    calls = calls_.TakeCalls();
    return !calls.empty();
  }));
  EXPECT_THAT(calls, ElementsAre("import a/1"));
}

TEST_F(FolderRepositoryTest, PollTakesWhatIsAddedAndRemoved) {
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kPoll);
  EXPECT_TRUE(Becomes("a", 1, v1::READY));
  Write("a/2/model.onnx", "two");
  EXPECT_TRUE(Becomes("a", 2, v1::READY));
  EXPECT_TRUE(Becomes("a", 1, v1::UNLOADED)) << "by the version policy";
  Write("b/1/model.onnx", "new");
  EXPECT_TRUE(Becomes("b", 1, v1::READY));
  Remove("a/2");
  EXPECT_TRUE(Becomes("a", 2, v1::UNLOADED));
  EXPECT_TRUE(Becomes("a", 1, v1::READY));
  Remove("b");
  EXPECT_TRUE(Becomes("b", 1, v1::UNLOADED));
  EXPECT_EQ(calls_.StateOf("a", 1), v1::READY);
}

TEST_F(FolderRepositoryTest, AnswersAreKeptAsLongAsTheFolderSaysSo) {
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt", "response_cache { enable: true }");
  Write("b/1/model.onnx", "two");
  Start(ModelControlMode::kPoll);
  EXPECT_TRUE(WaitUntil([&] { return KeepsAnswers("a"); }));
  EXPECT_TRUE(Becomes("b", 1, v1::READY));
  EXPECT_FALSE(KeepsAnswers("b"));
  Write("a/config.pbtxt", "response_cache { enable: false }");
  EXPECT_TRUE(WaitUntil([&] { return !KeepsAnswers("a"); }));
  Write("b/config.pbtxt", "response_cache { enable: true }");
  EXPECT_TRUE(WaitUntil([&] { return KeepsAnswers("b"); }));
  Remove("b");
  EXPECT_TRUE(WaitUntil([&] { return !KeepsAnswers("b"); }));
}

TEST_F(FolderRepositoryTest, ExplicitKeepsAnswersOfWhatWasLoadedBefore) {
  Write("a/1/model.onnx", "one");
  Write("a/config.pbtxt", "response_cache { enable: true }");
  Start(ModelControlMode::kExplicit);
  EXPECT_TRUE(KeepsAnswers("a"));
}

TEST_F(FolderRepositoryTest, AFailedLoadLeavesTheOlderVersion) {
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kExplicit);
  EXPECT_TRUE(Load("a").ok());
  Write("a/2/model.onnx", "two");
  calls_.load_outcome = absl::UnavailableError("no room");
  EXPECT_TRUE(absl::IsUnavailable(Load("a")));
  EXPECT_EQ(calls_.StateOf("a", 1), v1::READY);
}

TEST_F(FolderRepositoryTest, ExplicitLoadsOnRequestOnly) {
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kExplicit);
  EXPECT_THAT(calls_.TakeCalls(), IsEmpty());
  const auto versions = repository_->Versions();
  ASSERT_EQ(versions->size(), 1u);
  EXPECT_EQ(versions->at(0).model(), "a");
  EXPECT_EQ(versions->at(0).state(), v1::UNLOADED);
  EXPECT_TRUE(Load("a").ok());
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/1"));
  Write("late/4/model.onnx", "two");
  EXPECT_TRUE(Load("late").ok());
  EXPECT_EQ(calls_.StateOf("late", 4), v1::READY);
}

TEST_F(FolderRepositoryTest, ALoadAnswersWithTheReason) {
  Write("a/1/model.onnx", "one");
  Write("empty/config.pbtxt", "");
  Start(ModelControlMode::kExplicit);
  calls_.refusals[1] = absl::InvalidArgumentError("no ONNX file");
  EXPECT_THAT(std::string(Load("a").message()), HasSubstr("no ONNX file"));
  EXPECT_THAT(std::string(Load("empty").message()),
              HasSubstr("no version that its version policy chooses"));
  EXPECT_TRUE(absl::IsNotFound(Load("unknown"))) << "the other repository's";
}

TEST_F(FolderRepositoryTest, StoredVersionsAreListedOnce) {
  v1::ModelVersion row;
  row.set_model("a");
  row.set_version(1);
  row.set_state(v1::READY);
  others_.versions = {row};
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kExplicit);
  ASSERT_EQ(repository_->Versions()->size(), 1u);
  EXPECT_EQ(repository_->Versions()->front().state(), v1::READY);
}

TEST_F(FolderRepositoryTest, UnloadGoesToTheOtherRepository) {
  Start(ModelControlMode::kExplicit);
  repository_->Unload("a", UnloadScope::kModel, [](const absl::Status&) {});
  EXPECT_EQ(others_.unloaded, "a");
}

TEST_F(FolderRepositoryTest, AStoppedRepositoryRefusesLoads) {
  Start(ModelControlMode::kExplicit);
  repository_->BeginStop();
  EXPECT_TRUE(absl::IsUnavailable(Load("a")));
}

TEST_F(FolderRepositoryTest, AVersionThatStillLoadsIsWaitedFor) {
  calls_.imported = v1::LOADING;
  Write("a/1/model.onnx", "one");
  repository_ = Make(ModelControlMode::kNone);
  EXPECT_FALSE(repository_->loaded()) << "it has not started";
  repository_->Start();
  ASSERT_TRUE(Becomes("a", 1, v1::LOADING));
  EXPECT_FALSE(repository_->loaded());
  calls_.SetState("a", 1, v1::READY);
  EXPECT_TRUE(WaitUntil([&] { return repository_->loaded(); }));
}

TEST_F(FolderRepositoryTest, AnEnsembleIsListedWithItsState) {
  WriteEnsemble("e", "a");
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kPoll);
  EXPECT_TRUE(WaitUntil([&] { return ensembles_.Has("e"); }));
  EXPECT_EQ(RowOf("e").state(), v1::LOAD_FAILED);
  EXPECT_THAT(RowOf("e").error(), HasSubstr("step 1 (model 'a')"));
  Serve("a");
  EXPECT_EQ(RowOf("e").state(), v1::READY);
  Remove("e");
  EXPECT_TRUE(WaitUntil([&] { return !ensembles_.Has("e"); }));
  EXPECT_EQ(registry_.FindNewest("e"), nullptr);
}

TEST_F(FolderRepositoryTest, ABadEnsembleIsListedWithTheReason) {
  WriteEnsemble("e", "a b");
  Start(ModelControlMode::kNone);
  EXPECT_EQ(RowOf("e").state(), v1::LOAD_FAILED);
  EXPECT_THAT(RowOf("e").error(),
              HasSubstr("ensemble_scheduling.step[0].model_name"));
}

TEST_F(FolderRepositoryTest, LoadingAnEnsembleLoadsItsSteps) {
  WriteEnsemble("e", "a");
  Write("a/1/model.onnx", "one");
  Start(ModelControlMode::kExplicit);
  EXPECT_EQ(RowOf("e").state(), v1::UNLOADED);
  Serve("a");
  const absl::Status loaded = Load("e");
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_THAT(calls_.TakeCalls(), ElementsAre("import a/1"));
  EXPECT_EQ(RowOf("e").state(), v1::READY);
}

TEST_F(FolderRepositoryTest, ALoadOfAnEnsembleSaysWhichStepFailed) {
  WriteEnsemble("e", "a");
  Start(ModelControlMode::kExplicit);
  const absl::Status loaded = Load("e");
  EXPECT_TRUE(absl::IsUnavailable(loaded)) << loaded;
  EXPECT_THAT(std::string(loaded.message()),
              AllOf(HasSubstr("step 1 (model 'a')"), HasSubstr("model 'a': ")));
}

TEST_F(FolderRepositoryTest, UnloadingAnEnsembleMayUnloadItsSteps) {
  WriteEnsemble("e", "a");
  Start(ModelControlMode::kPoll);
  ASSERT_TRUE(WaitUntil([&] { return ensembles_.Has("e"); }));
  std::promise<absl::Status> first, second;
  repository_->Unload("e", UnloadScope::kModel,
                      [&](const absl::Status& s) { first.set_value(s); });
  EXPECT_TRUE(first.get_future().get().ok());
  EXPECT_FALSE(ensembles_.Has("e"));
  EXPECT_EQ(others_.unloaded, "");
  WriteEnsemble("e", "other");
  ASSERT_TRUE(WaitUntil([&] { return ensembles_.Has("e"); }));
  repository_->Unload("e", UnloadScope::kWithSteps,
                      [&](const absl::Status& s) { second.set_value(s); });
  EXPECT_TRUE(second.get_future().get().ok());
  EXPECT_EQ(others_.unloaded, "other");
}

}  // namespace
}  // namespace gpupool::server
