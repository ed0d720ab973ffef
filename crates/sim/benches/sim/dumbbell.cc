// A dumbbell in ns-3: senders behind one router, receivers behind another, and the bottleneck between them.
//
// dumbbell FLOWS MBIT_PER_S RTT_MS SECONDS
//
// Prints segments of data that the receivers took, and seconds of processor time that the simulation took.

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

using namespace ns3;

namespace {

constexpr uint32_t kSegmentBytes = 1448;
constexpr uint16_t kPort = 5000;

// Both devices of a link, without queueing disciplines above their own queues.
Ipv4InterfaceContainer Link(PointToPointHelper &link, Ptr<Node> near, Ptr<Node> far, Ipv4AddressHelper &addresses) {
  NetDeviceContainer devices = link.Install(near, far);
  Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
  TrafficControlHelper().Uninstall(devices);
  addresses.NewNetwork();
  return interfaces;
}

PointToPointHelper Helper(double mbit_per_s, double delay_ms, uint64_t queue_bytes) {
  PointToPointHelper helper;
  helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(mbit_per_s * 1e6))));
  helper.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<uint64_t>(delay_ms * 1e3))));
  helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::to_string(queue_bytes) + "B"));
  return helper;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::cerr << "usage: dumbbell FLOWS MBIT_PER_S RTT_MS SECONDS\n";
    return 2;
  }
  const uint32_t flows = std::atoi(argv[1]);
  const double mbit_per_s = std::atof(argv[2]), rtt_ms = std::atof(argv[3]), seconds = std::atof(argv[4]);

  // The bottleneck holds the product of rate and round trip twice, so twice that binds nobody.
  const uint64_t product_bytes = static_cast<uint64_t>(mbit_per_s * 1e6 / 8 * rtt_ms / 1e3);
  const uint32_t buffer_bytes = static_cast<uint32_t>(4 * product_bytes);
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegmentBytes));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer_bytes));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer_bytes));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));

  PointToPointHelper bottleneck = Helper(mbit_per_s, rtt_ms / 2, product_bytes);
  PointToPointHelper access = Helper(10 * mbit_per_s, 0, buffer_bytes);

  NodeContainer routers(2), senders(flows), receivers(flows);
  InternetStackHelper().InstallAll();
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
  Link(bottleneck, routers.Get(0), routers.Get(1), addresses);

  std::vector<Ptr<PacketSink>> sinks;
  for (uint32_t flow = 0; flow < flows; ++flow) {
    Link(access, senders.Get(flow), routers.Get(0), addresses);
    const Ipv4InterfaceContainer far = Link(access, routers.Get(1), receivers.Get(flow), addresses);
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort));
    sinks.push_back(sink.Install(receivers.Get(flow)).Get(0)->GetObject<PacketSink>());
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), kPort));
    source.SetAttribute("SendSize", UintegerValue(64u << 10));
    source.Install(senders.Get(flow)).Start(MilliSeconds(10 * flow));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();

  Simulator::Stop(Seconds(seconds));
  const std::clock_t began = std::clock();
  Simulator::Run();
  const double cpu_s = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  uint64_t bytes = 0;
  for (const auto &sink : sinks) bytes += sink->GetTotalRx();
  std::cout << bytes / kSegmentBytes << ' ' << cpu_s << '\n';
  Simulator::Destroy();
  return 0;
}
