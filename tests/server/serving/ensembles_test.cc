#include "server/serving/ensembles.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnsemblesTest : public ::testing::Test {
 protected:
  // Makes the version ready, as its model is stored.
  void Ready(const std::string& model, uint64_t version, uint64_t id) {
    v1::ModelVersion made = StepVersion(model, {"in"}, {"out"});
    made.set_version(version);
    made.set_id(id);
    Ready(made);
  }
  void Ready(const v1::ModelVersion& version) {
    stored_[version.model()].set_name(version.model());
    *stored_[version.model()].add_versions() = version;
    registry_.Add(MakeServedVersion(version, &timer_));
    ensembles_.Refresh();
  }
  void Unload(uint64_t id) {
    registry_.Drain(id, [] {});
    ensembles_.Refresh();
  }
  void SetState(const std::string& model, v1::VersionState state) {
    for (auto& version : *stored_[model].mutable_versions()) {
      version.set_state(state);
    }
  }
  v1::ModelVersion Row() const {
    const auto rows = ensembles_.Rows();
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? v1::ModelVersion() : rows[0];
  }
  VersionHandle Served() const { return registry_.FindNewest("chain"); }

  WakeTimer timer_;
  ModelRegistry registry_;
  std::map<std::string, v1::Model> stored_;
  Ensembles ensembles_{
      &registry_,
      [this](absl::string_view name) -> absl::StatusOr<v1::Model> {
        const auto found = stored_.find(std::string(name));
        if (found != stored_.end()) return found->second;
        return absl::NotFoundError("no such model");
      },
      nullptr};
};

TEST_F(EnsemblesTest, AnEnsembleIsServedOnceAllOfItsStepsAre) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  EXPECT_EQ(Served(), nullptr);
  Ready("pre", 1, 10);
  EXPECT_EQ(Served(), nullptr);
  Ready("net", 1, 20);
  ASSERT_NE(Served(), nullptr);
  EXPECT_EQ(Served()->facts().version, 1u);
  EXPECT_GE(Served()->facts().id, Ensembles::kFirstId);
  EXPECT_EQ(Served()->ensemble()->steps.size(), 2u);
  EXPECT_EQ(Row().state(), v1::READY);
  EXPECT_TRUE(ensembles_.CheckServed("chain").ok());
}

TEST_F(EnsemblesTest, StepsThatAreServedAlreadyAreTaken) {
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  EXPECT_NE(Served(), nullptr);
}

TEST_F(EnsemblesTest, WithoutAStepItIsHidden) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  Unload(20);
  SetState("net", v1::UNLOADED);
  EXPECT_EQ(Served(), nullptr);
  EXPECT_EQ(Row().state(), v1::UNLOADED);
  EXPECT_EQ(Row().error(), "step 2 (model 'net'): it is not loaded");
  EXPECT_TRUE(absl::IsUnavailable(ensembles_.CheckServed("chain")));
  Ready("net", 2, 21);
  EXPECT_NE(Served(), nullptr);
}

TEST_F(EnsemblesTest, ARowSaysWhichStepIsMissingAndWhy) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  EXPECT_EQ(Row().state(), v1::LOAD_FAILED);
  EXPECT_THAT(Row().error(), HasSubstr("step 1 (model 'pre'): there is no"));
  Ready("pre", 1, 10);
  EXPECT_THAT(Row().error(), HasSubstr("step 2 (model 'net')"));
  v1::ModelVersion& net = *stored_["net"].add_versions();
  net = MakeModelVersion("net", 3, 20);
  net.set_state(v1::LOADING);
  EXPECT_EQ(Row().state(), v1::LOADING);
  net.set_state(v1::LOAD_FAILED);
  net.set_error("no room");
  EXPECT_EQ(Row().state(), v1::LOAD_FAILED);
  EXPECT_THAT(Row().error(), HasSubstr("its version 3 failed to load: no"));
}

TEST_F(EnsemblesTest, StepsThatDoNotFitAreRefusedInWords) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  v1::ModelVersion net = StepVersion("net", {"in"}, {"out"});
  net.set_id(20);
  net.mutable_plan()->mutable_inputs(0)->set_data_type(v1::INT64);
  Ready(net);
  EXPECT_EQ(Served(), nullptr);
  EXPECT_EQ(Row().state(), v1::LOAD_FAILED);
  EXPECT_THAT(Row().error(), HasSubstr("tensor 'm' is FP32"));
}

TEST_F(EnsemblesTest, ANewVersionOfAStepTakesOverWithoutAGap) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  const VersionHandle before = Served();
  Ready("net", 2, 21);
  Unload(20);
  EXPECT_EQ(Served(), before) << "the formats are the same";
}

TEST_F(EnsemblesTest, OtherFormatsMakeAnotherVersion) {
  EnsembleSpec spec = ChainSpec();
  spec.inputs[0].dims = {-1};
  ASSERT_TRUE(ensembles_.Define(spec).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  const uint64_t before = Served()->facts().id;
  v1::ModelVersion wider = StepVersion("pre", {"in"}, {"out"});
  wider.set_version(2);
  wider.set_id(11);
  wider.mutable_plan()->mutable_inputs(0)->set_shape(1, 3);
  Ready(wider);
  ASSERT_NE(Served(), nullptr);
  EXPECT_NE(Served()->facts().id, before);
  EXPECT_THAT(Served()->facts().inputs[0].DeclaredShape(), ElementsAre(-1, 3));
  EXPECT_EQ(registry_.FindById(before), nullptr);
}

TEST_F(EnsemblesTest, AStepWithANumberTakesThatVersionOnly) {
  EnsembleSpec spec = ChainSpec();
  spec.steps[1].version = 2;
  ASSERT_TRUE(ensembles_.Define(spec).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  EXPECT_EQ(Served(), nullptr);
  EXPECT_THAT(Row().error(), HasSubstr("there is no version 2"));
  Ready("net", 2, 21);
  EXPECT_NE(Served(), nullptr);
}

// Requests then wait for the worker in the queue of the step.
TEST_F(EnsemblesTest, AStepWhoseWorkerIsLostLeavesTheEnsembleInTheRegistry) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  const uint64_t id = Served()->facts().id;
  registry_.Suspend(20);
  ensembles_.Refresh();
  EXPECT_EQ(Served(), nullptr);
  EXPECT_NE(registry_.FindById(id), nullptr);
  EXPECT_EQ(Row().state(), v1::READY) << "its worker restarts";
  registry_.Resume(20);
  ensembles_.Refresh();
  EXPECT_EQ(Served()->facts().id, id);
}

TEST_F(EnsemblesTest, RemoveWaitsForTheLastRequest) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  VersionHandle request = Served();
  bool drained = false;
  ensembles_.Remove("chain", [&] { drained = true; });
  EXPECT_EQ(Served(), nullptr);
  EXPECT_FALSE(drained);
  request = nullptr;
  EXPECT_TRUE(drained);
  EXPECT_THAT(ensembles_.Rows(), IsEmpty());
  drained = false;
  ensembles_.Remove("chain", [&] { drained = true; });
  EXPECT_TRUE(drained) << "there is none any more";
}

TEST_F(EnsemblesTest, AnotherDefinitionTakesThePlaceOfTheFirst) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  const VersionHandle before = Served();
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  EXPECT_EQ(Served(), before) << "nothing changed";
  EnsembleSpec spec = ChainSpec();
  spec.version = 2;
  ASSERT_TRUE(ensembles_.Define(spec).ok());
  EXPECT_EQ(Served()->facts().version, 2u);
  spec.steps.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(ensembles_.Define(spec)));
  EXPECT_EQ(Served()->facts().version, 2u);
}

TEST_F(EnsemblesTest, AStoredModelOfTheSameNameHidesTheEnsemble) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  ensembles_.MakeRoomFor("chain");
  EXPECT_EQ(Served(), nullptr);
  Ready("chain", 1, 30);
  EXPECT_EQ(Served()->facts().id, 30u);
  EXPECT_THAT(Row().error(), HasSubstr("another model of this name"));
  Unload(30);
  EXPECT_GE(Served()->facts().id, Ensembles::kFirstId);
}

TEST_F(EnsemblesTest, AModelHasItsStoredVersionsAndItsRow) {
  EXPECT_TRUE(absl::IsNotFound(ensembles_.FindModel("chain").status()));
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  const auto model = ensembles_.FindModel("chain");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->versions_size(), 1);
  Ready("pre", 1, 10);
  EXPECT_EQ(ensembles_.FindModel("pre")->versions_size(), 1);
  EXPECT_THAT(ensembles_.ModelsOf("chain"), ElementsAre("net", "pre"));
  EXPECT_THAT(ensembles_.ModelsOf("pre"), IsEmpty());
  EXPECT_THAT(ensembles_.Names(), ElementsAre("chain"));
  EXPECT_TRUE(ensembles_.Has("chain"));
  EXPECT_TRUE(absl::IsNotFound(ensembles_.CheckServed("pre")));
}

TEST_F(EnsemblesTest, AnEnsembleAsAStepIsRefusedInWords) {
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  EnsembleSpec outer = ChainSpec();
  outer.model = "outer";
  outer.steps[1].model = "chain";
  outer.steps[1].inputs = {{"x", "m"}};
  outer.steps[1].outputs = {{"y", "y"}};
  ASSERT_TRUE(ensembles_.Define(outer).ok());
  Ready("pre", 1, 10);
  EXPECT_THAT(ensembles_.Rows()[1].error(),
              HasSubstr("step 2 (model 'chain'): it is an ensemble itself"));
  Ready("net", 1, 20);
  EXPECT_THAT(ensembles_.Rows()[1].error(),
              HasSubstr("step 2 (model 'chain' version 1) is an ensemble"));
}

// "a" is looked at before "chain" is served.
TEST_F(EnsemblesTest, AnEnsembleThatIsServedLaterIsNoStepEither) {
  EnsembleSpec outer = ChainSpec();
  outer.model = "a";
  outer.steps[1].model = "chain";
  outer.steps[1].inputs = {{"x", "m"}};
  ASSERT_TRUE(ensembles_.Define(outer).ok());
  ASSERT_TRUE(ensembles_.Define(ChainSpec()).ok());
  Ready("pre", 1, 10);
  Ready("net", 1, 20);
  ASSERT_NE(Served(), nullptr);
  EXPECT_EQ(ensembles_.Rows()[0].state(), v1::LOAD_FAILED);
  EXPECT_THAT(ensembles_.Rows()[0].error(),
              HasSubstr("step 2 (model 'chain'): it is an ensemble itself"));
}

}  // namespace
}  // namespace gpupool::server
