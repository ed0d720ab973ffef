//! WAN path elements as pure state machines: delay, rate, queue, loss, and chains of them
