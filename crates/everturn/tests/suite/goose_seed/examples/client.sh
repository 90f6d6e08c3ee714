curl -N -X POST http://localhost:8080/reply \
-H "Content-Type: application/json" \
-H "Authorization: Bearer YOUR_API_KEY" \
-d '{
"user_message": {
"role": "user",
"content": [{
"type": "text",
"text": "List files in current directory"
}]
},
"session_id": "session-abc123"
}'
