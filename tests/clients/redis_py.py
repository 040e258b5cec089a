# Runs the commands that are read from standard input, one list of JSON a line, by redis-py's RedisCluster with its defaults.
import json
import logging
import sys

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ClusterDownError, MovedError, RedisError, ResponseError

logging.disable(logging.CRITICAL)
nodes = [ClusterNode(*a.rsplit(":", 1)) for a in sys.argv[1:]]
client = RedisCluster(startup_nodes=nodes, decode_responses=True)
for line in sys.stdin:
    words = json.loads(line)
    try:
        told = {"reply": client.execute_command(*words)}
    except MovedError as e:
        told = {"error": "MOVED " + str(e)}
    except ClusterDownError as e:
        told = {"error": "CLUSTERDOWN " + str(e)}
    except ResponseError as e:
        told = {"error": str(e)}
    except (RedisError, OSError) as e:
        told = {"error": "connection: " + type(e).__name__ + ": " + str(e)}
    print(json.dumps(told), flush=True)
