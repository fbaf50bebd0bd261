#include "engine/session_convert.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "engine/base/held_data_type.h"

namespace gpupool::engine {
namespace {

TEST(SessionConvertTest, APortHasTheTypeOfTheFile) {
  ServedPort port;
  port.port.name = "ids";
  port.port.dtype = DType::kInt32;
  port.port.shape = Shape({1, 3});
  EXPECT_EQ(ToProto(port, true, {}).data_type(), v1::INT32);
  port.port.declared = WidenedType::kUint16;
  EXPECT_EQ(ToProto(port, true, {}).data_type(), v1::UINT16);
  EXPECT_EQ(ToProto(WidenedType::kInt16), v1::INT16);
  EXPECT_EQ(ToProto(WidenedType::kUint32), v1::UINT32);
  EXPECT_EQ(ToProto(WidenedType::kUint64), v1::UINT64);
}

// The daemon and the engine must agree on the bytes of a slot.
TEST(SessionConvertTest, TheTypesThatHoldOthersAreTheSameEverywhere) {
#define GPUPOOL_WIDENED_TYPE(type, ...)                                      \
  EXPECT_EQ(HeldDataType(static_cast<uint32_t>(ToProto(WidenedType::type))), \
            static_cast<uint32_t>(ToProto(HeldAs(WidenedType::type))));
#include "engine/base/widened_types.inc"
#define GPUPOOL_DTYPE(dtype, message, ...)                    \
  EXPECT_EQ(HeldDataType(static_cast<uint32_t>(v1::message)), \
            static_cast<uint32_t>(v1::message));
#include "engine/base/dtype_table.inc"
}

TEST(SessionConvertTest, StatisticsKeepEveryField) {
  MemoryStatistics statistics;
  statistics.limit_bytes = 1;
  statistics.allocated_bytes = 2;
  statistics.requested_bytes = 3;
  statistics.reserved_bytes = 4;
  statistics.peak_allocated_bytes = 5;
  statistics.peak_reserved_bytes = 6;
  statistics.allocations = 7;
  statistics.frees = 8;
  statistics.retries = 9;
  statistics.out_of_memory = 10;
  statistics.owners = {{"job 1 / weights", 11}};
  const v1::MemoryStats proto = ToProto("cpu:0", statistics);
  EXPECT_EQ(proto.device(), "cpu:0");
  EXPECT_EQ(proto.limit_bytes(), 1u);
  EXPECT_EQ(proto.allocated_bytes(), 2u);
  EXPECT_EQ(proto.requested_bytes(), 3u);
  EXPECT_EQ(proto.reserved_bytes(), 4u);
  EXPECT_EQ(proto.peak_allocated_bytes(), 5u);
  EXPECT_EQ(proto.peak_reserved_bytes(), 6u);
  EXPECT_EQ(proto.allocations(), 7u);
  EXPECT_EQ(proto.frees(), 8u);
  EXPECT_EQ(proto.retries(), 9u);
  EXPECT_EQ(proto.out_of_memory(), 10u);
  ASSERT_EQ(proto.owners_size(), 1);
  EXPECT_EQ(proto.owners(0).owner(), "job 1 / weights");
  EXPECT_EQ(proto.owners(0).bytes(), 11u);
}

TEST(SessionConvertTest, ReadingsThatAreNotToldStayAbsent) {
  DeviceReadings readings;
  readings.time = absl::FromUnixMicros(1500000);
  readings.power_watts = 351.5;
  readings.ecc_corrected = 0;
  readings.processes = {{42, 300}, {43, 0}};
  readings.xid_events = {{absl::FromUnixSeconds(1), 79}, {absl::Now(), 999}};
  const v1::GpuReadings proto = ToProto(readings);
  EXPECT_EQ(proto.time().seconds(), 1);
  EXPECT_EQ(proto.time().nanos(), 500000000);
  EXPECT_EQ(proto.power_watts(), 351.5);
  EXPECT_TRUE(proto.has_ecc_corrected());
  EXPECT_FALSE(proto.has_ecc_uncorrected());
  EXPECT_FALSE(proto.has_utilization());
  ASSERT_EQ(proto.processes_size(), 2);
  EXPECT_EQ(proto.processes(0).pid(), 42u);
  EXPECT_EQ(proto.processes(0).bytes(), 300u);
  ASSERT_EQ(proto.xid_events_size(), 2);
  EXPECT_EQ(proto.xid_events(0).text(),
            "the GPU fell off the bus; start the machine again");
  EXPECT_EQ(proto.xid_events(1).code(), 999u);
  EXPECT_EQ(proto.xid_events(1).text(), "");
}

TEST(SessionConvertTest, SnapshotKeepsBlocksInOrder) {
  MemorySnapshot snapshot;
  snapshot.segments = {{.address = 64,
                        .bytes = 128,
                        .blocks = {{.offset = 0,
                                    .bytes = 64,
                                    .requested_bytes = 10,
                                    .owner = "job 1 / arena"},
                                   {.offset = 64, .bytes = 64, .free = true}}}};
  const v1::MemorySnapshot proto = ToProto("cpu:1", snapshot);
  EXPECT_EQ(proto.device(), "cpu:1");
  EXPECT_GT(proto.time().seconds(), 0);
  ASSERT_EQ(proto.segments_size(), 1);
  EXPECT_EQ(proto.segments(0).address(), 64u);
  ASSERT_EQ(proto.segments(0).blocks_size(), 2);
  EXPECT_EQ(proto.segments(0).blocks(0).requested_bytes(), 10u);
  EXPECT_EQ(proto.segments(0).blocks(0).owner(), "job 1 / arena");
  EXPECT_TRUE(proto.segments(0).blocks(1).free());
  EXPECT_EQ(proto.segments(0).blocks(1).offset(), 64u);
}

TEST(SessionConvertTest, ATimelineHasTheBytesOfTheHistory) {
  MemorySnapshot snapshot;
  snapshot.segments = {
      {.address = 64,
       .bytes = 128,
       .blocks = {{.offset = 0, .bytes = 128, .requested_bytes = 100}}}};
  snapshot.events = {{.action = MemoryAction::kSegmentMap,
                      .address = 64,
                      .bytes = 128,
                      .time_us = 1'000'000},
                     {.action = MemoryAction::kAlloc,
                      .address = 64,
                      .bytes = 100,
                      .time_us = 3'500'000}};
  v1::MemorySnapshot proto;
  AddTimeline(snapshot, proto);
  ASSERT_EQ(proto.timeline_size(), 3);
  EXPECT_EQ(proto.timeline(0).end_time().seconds(), 1);
  EXPECT_EQ(proto.timeline(0).allocated_bytes(), 0u);
  EXPECT_EQ(proto.timeline(0).reserved_bytes(), 0u);
  EXPECT_EQ(proto.timeline(1).reserved_bytes(), 128u);
  EXPECT_EQ(proto.timeline(2).allocated_bytes(), 128u);
  EXPECT_EQ(proto.timeline(2).end_time().seconds(), 3);
  EXPECT_EQ(proto.timeline(2).end_time().nanos(), 500'000'000);
}

TEST(SessionConvertTest, PlannedBytesKeepEveryClass) {
  const v1::PlannedBytes proto = ToProto(PlannedBytes{1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(proto.weights(), 1u);
  EXPECT_EQ(proto.optimizer(), 2u);
  EXPECT_EQ(proto.gradients(), 3u);
  EXPECT_EQ(proto.activations(), 4u);
  EXPECT_EQ(proto.workspace(), 5u);
  EXPECT_EQ(proto.peak(), 6u);
}

}  // namespace
}  // namespace gpupool::engine
