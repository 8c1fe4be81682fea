// Package outside looks at the topics and groups of applications from outside, without being a member of anything: it reads partitions from one
// offset to another, the committed offsets of groups, and what lies in retry topics. It is for the checks at the start of an application and
// for the command; nothing of it is on the path of records.
package outside
