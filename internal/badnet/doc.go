// Package badnet is a network between one client and its brokers that a test can spoil: a toxiproxy on loopback in front of each broker, all
// of them in this process.
//
// Brokers advertise one address to everybody, so it is the client that takes the other way: it dials by Routes, which lead to the proxies of
// its Net. So each client of a cluster has a network of its own, and what happens to it happens to nobody else.
package badnet
