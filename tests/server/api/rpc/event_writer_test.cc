#include "server/api/rpc/event_writer.h"

#include <gmock/gmock.h>

#include "gpupool/v1/admin.grpc.pb.h"
#include "tests/server/api/rpc/idle_service.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// A stream that has always more to say, or never.
class EndlessStream : public EventWriter<v1::BackUpDatabaseResponse> {
 public:
  EndlessStream(StreamFacts* facts, bool silent)
      : facts_(facts), silent_(silent) {}
  ~EndlessStream() override { facts_->gone = true; }

 private:
  Step Next() override {
    ++facts_->steps;
    if (silent_) return Idle{};
    v1::BackUpDatabaseResponse message;
    message.set_chunk(std::string(size_t{1} << 20, 'x'));
    return message;
  }

  StreamFacts* const facts_;
  const bool silent_;
};

class EventWriterTest : public IdleService,
                        public v1::AdminService::CallbackService {
 protected:
  void SetUp() override { Serve(this); }

  grpc::ServerWriteReactor<v1::BackUpDatabaseResponse>* BackUpDatabase(
      grpc::CallbackServerContext* context,
      const v1::BackUpDatabaseRequest*) override {
    return EndlessStream::Begin(
        std::make_shared<EndlessStream>(&facts_, silent_),
        PlaceIn(&registry_, context, Identity{}));
  }

  bool silent_ = false;
};

TEST_F(EventWriterTest, AStreamWhoseClientTakesNothingEndsInWords) {
  grpc::ClientContext context;
  auto reader =
      v1::AdminService::NewStub(channel_)->BackUpDatabase(&context, {});
  ASSERT_TRUE(EndsWhileTimePasses());
  v1::BackUpDatabaseResponse message;
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("took no step"));
}

TEST_F(EventWriterTest, AStreamThatHasNothingToSayStays) {
  silent_ = true;
  grpc::ClientContext context;
  auto reader =
      v1::AdminService::NewStub(channel_)->BackUpDatabase(&context, {});
  ASSERT_TRUE(WaitUntil([&] { return facts_.steps > 0; }));
  for (int i = 0; i < 10; ++i) {
    hours_ += 1;
    registry_.EndIdle();
  }
  EXPECT_FALSE(facts_.gone);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(WaitUntil([&] { return facts_.gone.load(); }));
}

}  // namespace
}  // namespace gpupool::server
